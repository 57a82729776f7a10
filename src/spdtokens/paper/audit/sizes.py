"""Which numbers of trials the printed accuracies fit: the granularity checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from spdtokens.paper.audit.check import Check, Outcome, Paper, Verdict, judge, labels
from spdtokens.paper.audit.granularity import (
    Reported,
    chance_to_fit,
    share_that_fits,
    sizes_that_fit,
    smallest_of_each_family,
)

#: Largest number of trials that is tried.
MAX_N = 400
SEEDS = 5


@dataclass(frozen=True)
class Split:
    """Trials of a subject, from the data sets themselves; the paper prints few of them.

    Attributes
    ----------
    data, subject : str
        The data set, and the subject of the paper's ablations.
    train : int
    test : tuple of int
        What the stated split leaves, and for 15 % of 340 both ways of rounding.
    how : str
    """

    data: str
    subject: str
    train: int
    test: tuple[int, ...]
    how: str

    @property
    def key(self) -> str:
        """In names of tables."""
        return self.data.lower()


#: BCI2a has 288 trials a session, of which one in eight validates; BCIcha has 340 trials a subject
#: and MAMEM 500, split 70/15/15.
SPLITS = (
    Split("BCI2a", "BCI2a (S1)", 288 * 7 // 8, (288,), "288 x 7/8"),
    Split("BCIcha", "BCIcha (S2)", int(0.7 * 340), (51, 52), "int(0.7 x 340)"),
    Split("MAMEM", "MAMEM (S1)", int(0.7 * 500), (75,), "int(0.7 x 500)"),
)


def subject_values(paper: Paper, split: Split) -> dict[str, list[Reported]]:
    """The Log-Euclidean transformer's values subject by subject, by where they are printed."""
    one, multi = (paper.table(f"{name}-{split.key}") for name in ("subjects", "multiband"))
    values = {
        "best and worst seeds": [
            Reported(cell.number) for column in ("Min", "Max") for cell in one.column(column)
        ],
        "means of 5 seeds": [Reported(cell.number, SEEDS) for cell in one.column("Accuracy")],
        "means, one band": [Reported(cell.number, SEEDS) for cell in multi.column("Single-Token")],
        "means, three bands": [Reported(c.number, SEEDS) for c in multi.column("Multi-Band")],
    }
    # A value printed in two tables, or many times as 100.00, says no more than once.
    seen: set[tuple[str, int]] = set()
    distinct: dict[str, list[Reported]] = {}
    for where, group in values.items():
        distinct[where] = []
        for value in group:
            if (str(value.value), value.seeds) not in seen:
                seen.add((str(value.value), value.seeds))
                distinct[where].append(value)
    return distinct


def _headline(paper: Paper, split: Split) -> Outcome:
    groups = subject_values(paper, split)
    values = [value for group in groups.values() for value in group]
    return _fitting(values, split, "distinct accuracies, subject by subject", groups)


def _fitting(
    values: list[Reported],
    split: Split,
    what: str,
    groups: dict[str, list[Reported]] | None = None,
) -> Outcome:
    sizes = sizes_that_fit(values, MAX_N)
    n = len(values)
    fit = {m: round(n * share_that_fits(values, m)) for m in (split.train, *split.test)}
    shown = ", ".join(
        f"{count} of {n} fit {m} {'trained on' if m == split.train else 'tested on'}"
        for m, count in fit.items()
    )
    in_groups = "; ".join(
        f"{where}: {sum(v.fits(split.train) for v in group)} of {len(group)}"
        for where, group in (groups or {}).items()
        if group
    )
    on_test = max(fit[m] for m in split.test)
    return Outcome(
        "holds" if on_test == n else "fits training size" if fit[split.train] == n else "undecided",
        f"{n} {what}",
        f"{shown}. n <= {MAX_N} that fit all: {', '.join(map(str, sizes)) or 'none'} "
        f"({split.how} = {split.train})" + (f". {in_groups}" if in_groups else ""),
        {
            "values": n,
            "fit": fit,
            "sizes_that_fit_all": sizes,
            "train": split.train,
            "test": list(split.test),
            "chance": chance_to_fit(values, split.train),
        },
    )


def ablation_values(paper: Paper, split: Split) -> list[Reported]:
    """Values of our transformers on one subject, from the tables of ablations."""
    values: list[Reported] = []
    geometry = paper.table("geometry")
    values += [Reported(geometry.cell(r, split.subject).number, SEEDS) for r in geometry.names]
    attention = paper.table("geometric-attention")
    values += [
        Reported(attention.cell(split.subject, column).number, SEEDS)
        for column in ("Standard", "Geometric")
    ]
    for name in ("depth", "heads"):
        table = paper.table(name)
        if split.subject in table.columns:
            values += [Reported(table.cell(r, split.subject).number, SEEDS) for r in table.names]
            best = f"{split.data} Best"
            values += [Reported(table.cell(r, best).number) for r in table.names]
    return list({(str(v.value), v.seeds): v for v in values}.values())


def _ablations(paper: Paper) -> Outcome:
    n, on_train, on_test = 0, 0, 0
    by_data = {}
    for split in SPLITS:
        values = ablation_values(paper, split)
        fit = round(len(values) * share_that_fits(values, split.train))
        most = max(round(len(values) * share_that_fits(values, m)) for m in split.test)
        by_data[split.data] = {"values": len(values), "train": fit, "test": most}
        n, on_train, on_test = n + len(values), on_train + fit, on_test + most
    return Outcome(
        "holds" if on_test == n else "fits training size" if on_train == n else "undecided",
        f"{n} distinct accuracies of transformers in the ablations of embedding, attention, depth "
        "and heads",
        f"{on_train} of {n} fit the trials trained on, {on_test} those tested on ("
        + ", ".join(
            f"{d} {c['train']} and {c['test']} of {c['values']}" for d, c in by_data.items()
        )
        + ")",
        by_data,
    )


def _others(paper: Paper) -> Outcome:
    """BN-Embed and the baselines, some of which fit only if digits were cut off."""
    n, rounded, cut, tested = 0, 0, 0, 0
    misfits = []
    for split in SPLITS:
        bn, base = paper.table("bn-embed"), paper.table("baselines")
        row = next(name for name in bn.names if name.startswith(split.data))
        cells = {f"{column}, {split.data}": bn.cell(row, column) for column in bn.columns[1:3]}
        cells |= {
            f"{name}, {split.data}": base.cell(name, split.subject)
            for name in ("SPDNet", "ATCNet", "EEGNet")
        }
        for label, cell in cells.items():
            value = Reported(cell.number, SEEDS)
            fits = value.fits(split.train)
            n, rounded = n + 1, rounded + fits
            cut += fits or value.fits(split.train, "cut")
            tested += any(value.fits(m) or value.fits(m, "cut") for m in split.test)
            if not fits:
                misfits.append(f"{label} {value.value}")
    verdict: Verdict = "undecided"
    if tested == n:
        verdict = "holds"
    elif cut == n:
        verdict = "fits training size"
    return Outcome(
        verdict,
        f"{n} means of BN-Embed, SPDNet, ATCNet and EEGNet on one subject of each data set",
        f"{rounded} of {n} fit the trials trained on if rounded, {cut} if rounded or cut off "
        f"({'; '.join(misfits)}); {tested} fit those tested on, rounded or cut off",
        {"values": n, "rounded": rounded, "rounded_or_cut": cut, "test": tested},
    )


def _figure_seeds(paper: Paper) -> Outcome:
    values = [Reported(paper.text(f"seed-42-s{s}").number, label=f"S{s}") for s in (2, 4)]
    return _fitting(values, SPLITS[0], "accuracies of the confusion matrices (seed 42)")


def _classical(paper: Paper) -> Outcome:
    """Methods without seeds: a mean over subjects is k / (subjects n)."""
    found, on_test, on_train, n = {}, 0, 0, 0
    for split in SPLITS:
        subjects = int(paper.cell("all-subjects", split.data, "Subjects").number)
        values = [
            Reported(paper.cell("all-subjects", split.data, method).number, subjects)
            for method in ("TS+LR", "FgMDM", "MDM")
        ]
        smallest = smallest_of_each_family(sizes_that_fit(values, MAX_N))
        test = max(split.test, key=lambda m: share_that_fits(values, m))
        found[split.data] = {
            "smallest": smallest[0] if smallest else None,
            "test": sum(v.fits(test) for v in values),
            "train": sum(v.fits(split.train) for v in values),
            "chance": chance_to_fit(values, test),
        }
        on_test += sum(v.fits(test) for v in values)
        on_train += sum(v.fits(split.train) for v in values)
        n += len(values)
    sizes = ", ".join(f"{data} {row['smallest']}" for data, row in found.items())
    return Outcome(
        judge(on_test == n),
        f"{n} means over subjects of TS+LR, FgMDM and MDM",
        f"{on_test} of {n} fit the trials tested on, {on_train} those trained on; smallest n that "
        f"fits a data set's three: {sizes}"
        + ("; the same table prints values that fit training sizes" if on_test == n else ""),
        found,
    )


CHECKS = [
    *(
        Check(
            f"granularity-{split.key}",
            labels(f"subjects-{split.key}", f"multiband-{split.key}"),
            "The accuracies are possible for n test trials: k / n, means of five seeds k / (5 n).",
            partial(_headline, split=split),
        )
        for split in SPLITS
    ),
    Check(
        "granularity-ablations",
        labels("geometry", "geometric-attention", "depth", "heads"),
        "Accuracies of one subject of each data set are possible for its test trials.",
        _ablations,
    ),
    Check(
        "granularity-others",
        labels("bn-embed", "baselines"),
        "Those of BN-Embed and of the methods compared with are, too.",
        _others,
    ),
    Check(
        "granularity-confusion",
        "fig:confusion_matrices_key",
        "The confusion matrices are of the 288 trials of the test session.",
        _figure_seeds,
    ),
    Check(
        "granularity-classical",
        "tab:all_subjects_comparison",
        "Means over s subjects of methods without seeds are possible for n test trials: k / (s n).",
        _classical,
    ),
]
