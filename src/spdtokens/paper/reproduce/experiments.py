"""The paper's tables of accuracies as experiments: what is trained for each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spdtokens.errors import PaperError
from spdtokens.evaluation.plan import Choice
from spdtokens.paper.reproduce.roles import BCI2A, BCICHA, MAMEM, ROLES, Role
from spdtokens.paper.tables import paper_table


@dataclass(frozen=True)
class Cell:
    """One place of a table.

    Attributes
    ----------
    row, column : str
        As shown.
    role : Role
    choice : Choice
    subject : int or None
        By position among the data set's subjects; None for all.
    protocol, access, alignment : str
        Empty for the role's own protocol.
    reported : str
        What the paper prints there; empty where it prints nothing.
    """

    row: str
    column: str
    role: Role
    choice: Choice
    subject: int | None = None
    protocol: str = ""
    access: str = "train"
    alignment: str = "none"
    reported: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table of the paper, or of its future work.

    Attributes
    ----------
    name, title : str
    label : str
        The paper's, empty for what it left to the future.
    cells : callable
        Given how many subjects there are by name of the role, all cells.
    note : str
        What a reader must know.
    """

    name: str
    title: str
    label: str
    cells: Callable[[dict[str, int]], Iterator[Cell]]
    note: str = ""


def _token(embedding: str, role: Role, label: str = "", **more: Any) -> Choice:
    return Choice(f"token-{embedding}", role.settings(**more), label)


def _printed(table: str, row: str, column: str) -> str:
    """What the paper prints, or nothing."""
    try:
        return paper_table(table).cell(row, column).text
    except PaperError:
        return ""


EMBEDDINGS = {
    "Log-Euc": "log-euclidean",
    "BWSPD": "bures-wasserstein",
    "Euclidean": "euclidean",
}
OTHERS = {
    "SPDTransNet": "spdtransnet",
    "mAtt": "matt",
    "TS+LR": "ts-lr",
    "FgMDM": "fgmdm",
    "MDM": "mdm",
    "SPDNet": "spdnet-paper",
}


def _all_subjects(_counts: dict[str, int]) -> Iterator[Cell]:
    for role in ROLES:
        for column, embedding in EMBEDDINGS.items():
            printed = _printed("all-subjects", role.name, column)
            yield Cell(role.name, column, role, _token(embedding, role), reported=printed)
        for column, method in OTHERS.items():
            printed = _printed("all-subjects", role.name, column)
            yield Cell(role.name, column, role, Choice(method, role.settings()), reported=printed)


def _one_subject(role: Role) -> str:
    return f"{role.name} (S{role.subject + 1})"


def _geometry(_counts: dict[str, int]) -> Iterator[Cell]:
    names = {"Log-Euclidean": "Log-Euc", "BWSPD": "BWSPD", "Euclidean": "Euclidean"}
    for row, name in names.items():
        for role in ROLES:
            column = _one_subject(role)
            choice = _token(EMBEDDINGS[name], role)
            printed = _printed("geometry", row, column)
            yield Cell(row, column, role, choice, role.subject, reported=printed)


def _multiband(_counts: dict[str, int]) -> Iterator[Cell]:
    for role in ROLES:
        for column, several in (("Single-Token", False), ("Multi-Band", True)):
            choice = _token("log-euclidean", role, multiband=several)
            printed = _printed("multiband", role.name, column)
            yield Cell(role.name, column, role, choice, reported=printed)


def _multiband_subjects(role: Role) -> Callable[[dict[str, int]], Iterator[Cell]]:
    table = f"multiband-{role.name.lower()}"

    def cells(counts: dict[str, int]) -> Iterator[Cell]:
        names = paper_table(table).subjects
        for i in range(counts[role.name]):
            name = names[i] if i < len(names) else f"S{i + 1}"
            for column, several in (("Single-Token", False), ("Multi-Band", True)):
                choice = _token("log-euclidean", role, multiband=several)
                printed = _printed(table, name, column)
                yield Cell(name, column, role, choice, i, reported=printed)
        for column, several in (("Single-Token", False), ("Multi-Band", True)):
            choice = _token("log-euclidean", role, multiband=several)
            yield _overall(table, column, role, choice)

    return cells


def _overall(table: str, column: str, role: Role, choice: Choice) -> Cell:
    """Of all subjects, beside the paper's last row; its name there has their number."""
    printed = _printed(table, paper_table(table).overall, column)
    return Cell("Overall", column, role, choice, reported=printed)


def _subjects(role: Role) -> Callable[[dict[str, int]], Iterator[Cell]]:
    table = f"subjects-{role.name.lower()}"

    def cells(counts: dict[str, int]) -> Iterator[Cell]:
        names = paper_table(table).subjects
        for i in range(counts[role.name]):
            name = names[i] if i < len(names) else f"S{i + 1}"
            printed = _printed(table, name, "Accuracy")
            choice = _token("log-euclidean", role)
            yield Cell(name, "Accuracy", role, choice, i, reported=printed)
        yield _overall(table, "Accuracy", role, _token("log-euclidean", role))

    return cells


def _bn_embed(_counts: dict[str, int]) -> Iterator[Cell]:
    features = {"BCIcha": 1596, "BCI2a": 253, "MAMEM": 36}
    for role in (BCICHA, BCI2A, MAMEM):
        row = f"{role.name} ({features[role.name]})"
        for column, with_it in (("With BN", True), ("Without BN", False)):
            label = "" if with_it else "without BN-Embed"
            choice = _token("bures-wasserstein", role, label, epochs=100, bn_embed=with_it)
            printed = _printed("bn-embed", row, column)
            yield Cell(row, column, role, choice, role.subject, reported=printed)


def _geometric_attention(_counts: dict[str, int]) -> Iterator[Cell]:
    for role in ROLES:
        for several in (False, True):
            row = _one_subject(role)
            for column, kind in (("Standard", "standard"), ("Geometric", "geometric")):
                choice = _token("bures-wasserstein", role, multiband=several, attention=kind)
                printed = "" if several else _printed("geometric-attention", row, column)
                shown = f"{row}, 3 bands" if several else row
                yield Cell(shown, column, role, choice, role.subject, reported=printed)


def _varied(
    table: str, name: str, values: dict[str, int]
) -> Callable[[dict[str, int]], Iterator[Cell]]:
    """A value of the network varied on one subject of BCI2a and BCIcha, 100 epochs."""

    def cells(_counts: dict[str, int]) -> Iterator[Cell]:
        for row, value in values.items():
            for role in (BCI2A, BCICHA):
                more: dict[str, Any] = {name: value}
                choice = _token("bures-wasserstein", role, epochs=100, **more)
                printed = _printed(table, row, _one_subject(role))
                column = _one_subject(role)
                yield Cell(row, column, role, choice, role.subject, reported=printed)

    return cells


def _baselines(_counts: dict[str, int]) -> Iterator[Cell]:
    rows = {
        "Log-Euc": lambda role: _token("log-euclidean", role),
        "BWSPD-Transformer": lambda role: _token("bures-wasserstein", role),
        "SPDNet": lambda role: Choice("spdnet-paper", role.settings()),
        "ATCNet": lambda role: Choice("atcnet", role.settings()),
        "EEGNet": lambda role: Choice("eegnet", role.settings()),
    }
    for row, made in rows.items():
        for role in ROLES:
            column = _one_subject(role)
            printed = _printed("baselines", row, column)
            yield Cell(row, column, role, made(role), role.subject, reported=printed)


#: The text's values with Euclidean alignment, which it has for BCI2a only.
_ALIGNED = {"Log-Euc": "ea-log-euc", "BWSPD": "ea-bwspd"}


def _cross_subject_printed(role: Role, column: str, alignment: str) -> str:
    if alignment == "none":
        return _printed("cross-subject", role.name, column)
    if alignment == "euclidean" and role is BCI2A and column in _ALIGNED:
        _before, after, _gain = paper_table("text").cell(_ALIGNED[column], "Value").numbers
        return str(after)
    return ""


def _cross_subject(_counts: dict[str, int]) -> Iterator[Cell]:
    columns = {**EMBEDDINGS, "SPDTransNet": "spdtransnet", "SPDNet": "spdnet-paper"}
    ways = {
        "": ("train", "none"),
        ", Euclidean alignment": ("unlabeled_full", "euclidean"),
        ", Riemannian recentring": ("unlabeled_full", "recentre"),
    }
    for role in ROLES:
        for more, (access, alignment) in ways.items():
            for column, name in columns.items():
                if column in EMBEDDINGS:
                    choice = _token(name, role)
                else:
                    choice = Choice(name, role.settings())
                yield Cell(
                    role.name + more,
                    column,
                    role,
                    choice,
                    protocol="leave-one-subject-out",
                    access=access,
                    alignment=alignment,
                    reported=_cross_subject_printed(role, column, alignment),
                )


def _input(_counts: dict[str, int]) -> Iterator[Cell]:
    for role in ROLES:
        tokens = _printed("all-subjects", role.name, "BWSPD")
        bci2a = role is BCI2A
        yield Cell(
            role.name, "SPD tokens", role, _token("bures-wasserstein", role), reported=tokens
        )
        yield Cell(
            role.name,
            "Raw time series",
            role,
            Choice("raw-transformer", role.settings()),
            reported=_printed("text", "raw-range", "Value") if bci2a else "",
        )


def _multiband_embeddings(_counts: dict[str, int]) -> Iterator[Cell]:
    for role in ROLES:
        for column, embedding in EMBEDDINGS.items():
            yield Cell(role.name, column, role, _token(embedding, role, multiband=True))


@dataclass(frozen=True)
class _Bands:
    """A configuration of bands the paper did not try."""

    title: str
    bands: Any
    roles: tuple[Role, ...] = field(default=ROLES)


def _bands(_counts: dict[str, int]) -> Iterator[Cell]:
    found = (
        _Bands("4-8, 8-13, 13-30 Hz (the paper's)", "paper3"),
        _Bands("8-13, 13-30 Hz", [(8.0, 13.0), (13.0, 30.0)]),
        _Bands("nine of 4 Hz", "filterbank"),
        _Bands("around the stimuli", "stimulus", (MAMEM,)),
    )
    for band in found:
        for role in band.roles:
            settings = role.settings()
            choice = Choice(
                "token-log-euclidean", type(settings)(**{**vars(settings), "bands": band.bands})
            )
            yield Cell(band.title, role.name, role, choice)


_BY_POSITION = "Simulated subjects stand beside the paper's by position only."
_ONE_TOKEN = (
    "With one token a trial attention has nothing to weigh: the first three rows must be equal."
)
EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "all-subjects",
            "All SPD methods, all subjects",
            "tab:all_subjects_comparison",
            _all_subjects,
        ),
        Experiment("geometry", "Geometry ablation", "tab:geometry_ablation", _geometry),
        Experiment("multiband", "Multi-band tokens", "tab:multiband_summary", _multiband),
        *(
            Experiment(
                f"multiband-{role.name.lower()}",
                f"Multi-band tokens, subjects of {role.name}",
                {"BCI2a": "tab:multiband_main"}.get(
                    role.name, f"tab:multiband_{role.name.lower()}"
                ),
                _multiband_subjects(role),
                _BY_POSITION,
            )
            for role in ROLES
        ),
        *(
            Experiment(
                f"subjects-{role.name.lower()}",
                f"Log-Euclidean tokens, subjects of {role.name}",
                {"BCI2a": "tab:per_subject_log_euclidean"}.get(
                    role.name, f"tab:per_subject_log_euclidean_{role.name.lower()}"
                ),
                _subjects(role),
                _BY_POSITION,
            )
            for role in ROLES
        ),
        Experiment("bn-embed", "BN-Embed ablation", "tab:bn_embed_ablation", _bn_embed),
        Experiment(
            "geometric-attention",
            "Geometric attention",
            "tab:geometric_attention_ablation",
            _geometric_attention,
            _ONE_TOKEN,
        ),
        Experiment(
            "depth",
            "Depth",
            "tab:structure_ablation_depth",
            _varied(
                "depth",
                "n_layers",
                {"Depth 2": 2, "Depth 4": 4, "Depth 6 (std)": 6, "Depth 8": 8},
            ),
            "The paper does not say which tokens; square roots here.",
        ),
        Experiment(
            "heads",
            "Attention heads",
            "tab:structure_ablation_heads",
            _varied("heads", "n_heads", {"4 Heads": 4, "8 Heads (std)": 8, "16 Heads": 16}),
            "With one token a trial heads cannot matter: differences are other initial weights.",
        ),
        Experiment(
            "baselines",
            "Against raw EEG methods, one subject",
            "tab:sota_comparison",
            _baselines,
        ),
        Experiment(
            "cross-subject",
            "Leave one subject out, without and with alignment",
            "tab:cross_subject",
            _cross_subject,
            "The paper's values with Euclidean alignment stand in its text; there it starts from "
            "28.47 (Log-Euc) and 27.12 (BWSPD), not from the values of its table.",
        ),
        Experiment("input", "Tokens against raw time series", "", _input),
        Experiment(
            "multiband-embeddings",
            "Multi-band for every embedding (the paper's future work)",
            "",
            _multiband_embeddings,
        ),
        Experiment("bands", "Other bands (the paper's future work)", "", _bands),
    )
}
