"""Experiments that reproduce the paper's tables of accuracies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from spdtokens.classifiers.methods import Settings
from spdtokens.errors import PaperError
from spdtokens.evaluation.plan import Choice
from spdtokens.paper.tables import TABLES, paper_table

Data = Literal["sim", "real"]


@dataclass(frozen=True)
class Role:
    """One of the paper's data sets, its simulated counterpart, and the paper's settings for it.

    Attributes
    ----------
    name : str
        The paper's name of the data set.
    sim, real : str
        Names of the simulated counterpart and of the real data set.
    protocol : str
        A protocol without leakage: session T to E for BCI2a; sessions 1-3 / 4 / 5, as in MAtt, for
        the others.
    preset, bands : str
        Preset of the network, and bands of single-token experiments: 4-40 Hz for BCI2a, no filter
        for the others.
    subject : int
        Index of the subject of the paper's ablations.
    """

    name: str
    sim: str
    real: str
    protocol: str
    preset: str
    bands: str
    subject: int

    def dataset(self, data: Data) -> str:
        """Return the name of the simulated or real data set."""
        return self.sim if data == "sim" else self.real

    @property
    def one_subject(self) -> str:
        """Name of the subject of the ablations in the paper's tables."""
        return f"{self.name} (S{self.subject + 1})"

    def settings(
        self, *, multiband: bool = False, epochs: int | None = None, **changes: object
    ) -> Settings:
        """Return the paper's settings.

        Parameters
        ----------
        multiband : bool
            Whether to use three bands per trial instead of one.
        epochs : int, optional
            Number of epochs; by default that of the recipe.
        **changes
            Values of the preset to replace.
        """
        return Settings(
            bands="paper3" if multiband else self.bands,
            estimator="sample",
            preset=self.preset,
            changes=changes,
            recipe="common",
            epochs=epochs,
        )


BCI2A = Role("BCI2a", "sim-mi", "bci2a", "session-transfer", "paper", "broadband", 0)
BCICHA = Role("BCIcha", "sim-erp", "bcicha", "session-split", "paper", "none", 1)
MAMEM = Role("MAMEM", "sim-ssvep", "mamem", "session-split", "paper-small", "none", 0)
ROLES = (BCI2A, BCICHA, MAMEM)


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes
    ----------
    row, column : str
        Names of row and column.
    role : Role
        The data set.
    choice : Choice
        The method and its settings.
    subject : int or None
        Index of the subject; None for all.
    protocol, access, alignment : str
        As in :class:`Question`; an empty protocol is that of the role.
    reported : str
        The text of the cell in the paper; empty if there is none.
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


#: Function from the name of a table and the number of subjects of each data set to all cells.
Cells = Callable[[str, dict[str, int]], Iterator[Cell]]


@dataclass(frozen=True)
class Experiment:
    """A table of the paper, or an experiment of its future work.

    Attributes
    ----------
    name, title : str
        Name and title of the table.
    make : callable
        See :data:`Cells`.
    note : str
        Note below the table.
    """

    name: str
    title: str
    make: Cells
    note: str = ""

    def cells(self, counts: dict[str, int]) -> Iterator[Cell]:
        """Return all cells, given the number of subjects of each data set."""
        return self.make(self.name, counts)

    @property
    def label(self) -> str:
        """LaTeX label in the paper; empty for future work."""
        return paper_table(self.name).label if self.name in TABLES else ""


#: Embeddings by their names in the paper's tables.
EMBEDDINGS = {"Log-Euc": "log-euclidean", "BWSPD": "bures-wasserstein", "Euclidean": "euclidean"}
TOKENS = {name: f"token-{embedding}" for name, embedding in EMBEDDINGS.items()}
OTHERS = {
    "SPDTransNet": "spdtransnet",
    "mAtt": "matt",
    "TS+LR": "ts-lr",
    "FgMDM": "fgmdm",
    "MDM": "mdm",
    "SPDNet": "spdnet-paper",
}
ONE_OR_THREE_BANDS = {"Single-Token": False, "Multi-Band": True}
#: All experiments by name, in the order of definition; see :func:`experiment`.
EXPERIMENTS: dict[str, Experiment] = {}


def experiment(name: str, title: str, note: str = "") -> Callable[[Cells], Cells]:
    """Register a function that makes cells; its docstring is the note by default."""

    def register(make: Cells) -> Cells:
        said = note or " ".join((make.__doc__ or "").split())
        EXPERIMENTS[name] = Experiment(name, title, make, said)
        return make

    return register


def _printed(table: str, row: str, column: str) -> str:
    """Return the text of a cell of the paper, or an empty text."""
    try:
        return paper_table(table).cell(row, column).text
    except PaperError:
        return ""


def _cell(
    table: str, row: str, column: str, role: Role, method: str, subject: int | None = None,
    **settings: Any,
) -> Cell:  # fmt: skip
    """Make a cell, with the text of the cell of the same names in the paper."""
    choice = Choice(method, role.settings(**settings))
    return Cell(row, column, role, choice, subject, reported=_printed(table, row, column))


def _crossed(
    methods: Mapping[str, str],
    roles: tuple[Role, ...] = ROLES,
    *,
    one_subject: bool = False,
    **settings: Any,
) -> Cells:
    """Make cells of every method on every data set.

    Data sets are in rows for all subjects, methods are in rows for one subject. A setting may be a
    mapping by the names of the methods.
    """

    def cells(table: str, _counts: dict[str, int]) -> Iterator[Cell]:
        pairs = [(name, role) for role in roles for name in methods]
        for name, role in product(methods, roles) if one_subject else pairs:
            values = {k: v[name] if isinstance(v, Mapping) else v for k, v in settings.items()}
            place = (name, role.one_subject) if one_subject else (role.name, name)
            subject = role.subject if one_subject else None
            yield _cell(table, *place, role, methods[name], subject, **values)

    return cells


def _varied(name: str, values: dict[str, int]) -> Cells:
    """Make cells that vary a setting of the network on one subject of BCI2a and BCIcha."""
    methods, roles = dict.fromkeys(values, TOKENS["BWSPD"]), (BCI2A, BCICHA)
    return _crossed(methods, roles, one_subject=True, epochs=100, **{name: values})


def _by_subject(columns: dict[str, bool], role: Role) -> Cells:
    """Make cells by subject, with the mean in the last row; columns have one band or three."""

    def cells(table: str, counts: dict[str, int]) -> Iterator[Cell]:
        printed = paper_table(table)
        n = counts[role.name]
        names = [*printed.subjects, *(f"S{i + 1}" for i in range(len(printed.subjects), n))][:n]
        # The name of the paper's last row is "Overall" with the number of subjects.
        for i, row in enumerate([*names, printed.overall]):
            subject = i if i < n else None
            for column, three in columns.items():
                log = TOKENS["Log-Euc"]
                cell = _cell(table, row, column, role, log, subject, multiband=three)
                yield replace(cell, row="Overall") if subject is None else cell

    return cells


experiment("all-subjects", "All SPD methods, all subjects")(_crossed(TOKENS | OTHERS))
experiment("geometry", "Geometry ablation")(
    _crossed(
        {name.replace("Log-Euc", "Log-Euclidean"): TOKENS[name] for name in TOKENS},
        one_subject=True,
    )
)
experiment("multiband", "Multi-band tokens")(
    _crossed(dict.fromkeys(ONE_OR_THREE_BANDS, TOKENS["Log-Euc"]), multiband=ONE_OR_THREE_BANDS)
)
for kind, title, columns in (
    ("multiband", "Multi-band tokens", ONE_OR_THREE_BANDS),
    ("subjects", "Log-Euclidean tokens", {"Accuracy": False}),
):
    for role in ROLES:
        experiment(
            f"{kind}-{role.name.lower()}",
            f"{title}, subjects of {role.name}",
            "Simulated subjects correspond to the paper's by number only.",
        )(_by_subject(columns, role))


@experiment("bn-embed", "BN-Embed ablation")
def _bn_embed(table: str, _counts: dict[str, int]) -> Iterator[Cell]:
    for role, features in ((BCICHA, 1596), (BCI2A, 253), (MAMEM, 36)):
        for column, with_it in (("With BN", True), ("Without BN", False)):
            row, changes = f"{role.name} ({features})", {"epochs": 100, "bn_embed": with_it}
            cell = _cell(table, row, column, role, TOKENS["BWSPD"], role.subject, **changes)
            label = "" if with_it else "without BN-Embed"
            yield replace(cell, choice=replace(cell.choice, label=label))


@experiment("geometric-attention", "Geometric attention")
def _geometric_attention(table: str, _counts: dict[str, int]) -> Iterator[Cell]:
    """With one token per trial, attention has no effect: the columns must be equal there."""
    for role in ROLES:
        for more, three in (("", False), (", 3 bands", True)):
            for column in ("Standard", "Geometric"):
                yield _cell(
                    table, role.one_subject + more, column, role, TOKENS["BWSPD"],
                    role.subject, multiband=three, attention=column.lower(),
                )  # fmt: skip


experiment("depth", "Depth", "The paper does not state the embedding; BWSPD is used here.")(
    _varied("n_layers", {f"Depth {n}{' (std)' * (n == 6)}": n for n in (2, 4, 6, 8)})
)
experiment(
    "heads",
    "Attention heads",
    "With one token per trial, heads have no effect: differences are due to initial weights.",
)(_varied("n_heads", {f"{n} Heads{' (std)' * (n == 8)}": n for n in (4, 8, 16)}))
experiment("baselines", "Against raw EEG methods, one subject")(
    _crossed(
        {
            "Log-Euc": TOKENS["Log-Euc"],
            "BWSPD-Transformer": TOKENS["BWSPD"],
            "SPDNet": "spdnet-paper",
            "ATCNet": "atcnet",
            "EEGNet": "eegnet",
        },
        one_subject=True,
    )
)


@experiment("cross-subject", "Leave one subject out, without and with alignment")
def _cross_subject(table: str, _counts: dict[str, int]) -> Iterator[Cell]:
    """The paper's values with Euclidean alignment are from its text.

    The text gives 28.47 (Log-Euc) and 27.12 (BWSPD) without alignment, unlike the table.
    """
    ways = {
        "": ("train", "none"),
        ", Euclidean alignment": ("unlabeled_full", "euclidean"),
        ", Riemannian recentring": ("unlabeled_full", "recentre"),
    }
    columns = TOKENS | {name: OTHERS[name] for name in ("SPDTransNet", "SPDNet")}
    for role in ROLES:
        for more, (access, alignment) in ways.items():
            for column, method in columns.items():
                cell = _cell(table, role.name + more, column, role, method)
                # The text has values with Euclidean alignment for BCI2a only.
                in_text = _printed("text", f"ea-{column.lower()}", "Value").split(" ")
                if alignment == "euclidean" and role is BCI2A and in_text[1:]:
                    cell = replace(cell, reported=in_text[1])
                loso = "leave-one-subject-out"
                yield replace(cell, protocol=loso, access=access, alignment=alignment)


@experiment("input", "Tokens against raw time series")
def _input(_table: str, _counts: dict[str, int]) -> Iterator[Cell]:
    for role in ROLES:
        tokens = _cell("all-subjects", role.name, "BWSPD", role, TOKENS["BWSPD"])
        yield replace(tokens, column="SPD tokens")
        raw = _cell("input", role.name, "Raw time series", role, "raw-transformer")
        reported = _printed("text", "raw-range", "Value") if role is BCI2A else ""
        yield replace(raw, reported=reported)


experiment("multiband-embeddings", "Multi-band for every embedding (the paper's future work)")(
    _crossed(TOKENS, multiband=True)
)


@experiment("bands", "Other bands (the paper's future work)")
def _bands(_table: str, _counts: dict[str, int]) -> Iterator[Cell]:
    found: dict[str, Any] = {
        "4-8, 8-13, 13-30 Hz (the paper's)": "paper3",
        "8-13, 13-30 Hz": [(8.0, 13.0), (13.0, 30.0)],
        "nine bands of 4 Hz": "filterbank",
        "around the stimulus frequencies": "stimulus",
    }
    for row, bands in found.items():
        for role in (MAMEM,) if bands == "stimulus" else ROLES:
            settings = replace(role.settings(), bands=bands)
            yield Cell(row, role.name, role, Choice(TOKENS["Log-Euc"], settings))
