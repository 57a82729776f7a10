"""Experiments that reproduce the paper's tables of accuracies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

from spdtokens.classifiers.methods import Settings
from spdtokens.errors import PaperError
from spdtokens.evaluation.plan import Choice
from spdtokens.paper.tables import TABLES, paper_table

Data = Literal["sim", "real"]
Split = Literal["honest", "paper"]


@dataclass(frozen=True)
class Role:
    """One of the paper's data sets, its simulated counterpart, and the paper's settings for it.

    Attributes
    ----------
    name : str
        The paper's name of the data set.
    sim, real : str
        Names of the simulated counterpart and of the real data set; empty if there is none.
    protocol, paper_protocol : str
        A protocol without leakage: session T to E for BCI2a; sessions 1-3 / 4 / 5, as in MAtt, for
        the others. And the paper's, as far as its numbers reveal it.
    preset, bands : str
        Preset of the network, and bands of single-token experiments: 4-40 Hz for BCI2a, no filter
        for the others.
    subjects : tuple of str
        The paper's names of the subjects.
    subject : str
        Subject of the paper's ablations.
    paper_options : mapping of str to mapping, default={}
        Options of the simulated and the real data set for the paper's trials, with its protocol.
    options : mapping, default={}
        Further options of the data set.
    """

    name: str
    sim: str
    real: str
    protocol: str
    paper_protocol: str
    preset: str
    bands: str
    subjects: tuple[str, ...]
    subject: str
    paper_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def dataset(self, data: Data) -> str:
        """Return the name of the simulated or real data set."""
        return self.sim if data == "sim" else self.real

    def dataset_options(self, data: Data, split: Split) -> dict[str, Any]:
        """Return the options of the data set; the user's come last."""
        own = self.paper_options.get(data, {}) if split == "paper" else {}
        return {**own, **self.options}

    def found(self, data: Data, available: Sequence[str]) -> dict[str, str]:
        """Find the paper's subjects in a data set.

        Parameters
        ----------
        data : {'sim', 'real'}
            Whether the data set is simulated.
        available : sequence of str
            Names of the subjects of the data set.

        Returns
        -------
        dict of str to str
            Names in the data set by the paper's names, which are numbers after an S. Simulated
            subjects are nobody's: they are taken in their order.
        """
        if data == "sim":
            return dict(zip(self.subjects, available, strict=False))
        numbers = {name.lstrip("SU0"): name for name in available}
        return {name: numbers[name[1:]] for name in self.subjects if name[1:] in numbers}

    @property
    def one_subject(self) -> str:
        """Name of the subject of the ablations in the paper's tables."""
        return f"{self.name} ({self.subject})"

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
            estimator="paper",
            preset=self.preset,
            changes=changes,
            recipe="common",
            epochs=epochs,
        )


def _subjects(table: str) -> tuple[str, ...]:
    return paper_table(table).subjects


BCI2A = Role(
    "BCI2a", "sim-mi", "bci2a", "session-transfer", "paper-sessions", "paper", "broadband",
    _subjects("subjects-bci2a"), "S1", {"real": {"crop": "paper-250"}},
)  # fmt: skip
BCICHA = Role(
    "BCIcha", "sim-erp", "bcicha", "session-split", "paper-shuffled", "paper", "none",
    _subjects("subjects-bcicha"), "S2",
)  # fmt: skip
MAMEM = Role(
    "MAMEM", "sim-ssvep", "mamem", "session-split", "paper-shuffled", "paper-small", "none",
    _subjects("subjects-mamem"), "S1", {"sim": {"segments": 4}, "real": {"segments": 4}},
)  # fmt: skip
ROLES = (BCI2A, BCICHA, MAMEM)
#: Another biosignal, which the paper leaves to the future.
EMG = Role(
    "EMG", "sim-emg", "", "session-transfer", "paper-sessions", "paper-small", "none",
    ("S1", "S2", "S3", "S4", "S5"), "S1",
)  # fmt: skip


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
    subject : str or None
        The paper's name of the subject; None for all.
    protocol, access, alignment : str
        As in :class:`Question`; an empty protocol is that of the role.
    reported : str
        The text of the cell in the paper; empty if there is none.
    seeds : int or None
        Number of seeds, if the paper has another than elsewhere.
    """

    row: str
    column: str
    role: Role
    choice: Choice
    subject: str | None = None
    protocol: str = ""
    access: str = "train"
    alignment: str = "none"
    reported: str = ""
    seeds: int | None = None


#: Function from a data set to the paper's names of the subjects that are there.
Present = Callable[[Role], Sequence[str]]
#: Function from the name of a table and the subjects of each data set to all cells.
Cells = Callable[[str, Present], Iterator[Cell]]


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

    def cells(self, present: Present = lambda role: role.subjects) -> Iterator[Cell]:
        """Return all cells, given the subjects that are there of each data set."""
        return self.make(self.name, present)

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
#: Access and alignment across subjects, by what is added to a row's name.
WAYS = {
    "": ("train", "none"),
    ", Euclidean alignment": ("unlabeled_full", "euclidean"),
    ", Riemannian recentring": ("unlabeled_full", "recentre"),
}
ACROSS = "leave-one-subject-out"
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
    table: str, row: str, column: str, role: Role, method: str, subject: str | None = None,
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

    def cells(table: str, _present: Present) -> Iterator[Cell]:
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

    def cells(table: str, present: Present) -> Iterator[Cell]:
        # The paper's last row is called "Overall" with the number of subjects.
        for row in (*present(role), paper_table(table).overall):
            subject = None if row.startswith("Overall") else row
            for column, three in columns.items():
                log = TOKENS["Log-Euc"]
                cell = _cell(table, row, column, role, log, subject, multiband=three)
                yield replace(cell, row=subject or "Overall")

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
        )(_by_subject(columns, role))


@experiment("bn-embed", "BN-Embed ablation")
def _bn_embed(table: str, _present: Present) -> Iterator[Cell]:
    for role, features in ((BCICHA, 1596), (BCI2A, 253), (MAMEM, 36)):
        for column, with_it in (("With BN", True), ("Without BN", False)):
            row, changes = f"{role.name} ({features})", {"epochs": 100, "bn_embed": with_it}
            cell = _cell(table, row, column, role, TOKENS["BWSPD"], role.subject, **changes)
            label = "" if with_it else "without BN-Embed"
            yield replace(cell, choice=replace(cell.choice, label=label))


@experiment("geometric-attention", "Geometric attention")
def _geometric_attention(table: str, _present: Present) -> Iterator[Cell]:
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
            "ATCNet": "atcnet-paper",
            "EEGNet": "eegnet-paper",
        },
        one_subject=True,
    )
)


@experiment("cross-subject", "Leave one subject out, without and with alignment")
def _cross_subject(table: str, _present: Present) -> Iterator[Cell]:
    """The paper's values with Euclidean alignment are from its text.

    The text gives 28.47 (Log-Euc) and 27.12 (BWSPD) without alignment, unlike the table.
    """
    columns = TOKENS | {name: OTHERS[name] for name in ("SPDTransNet", "SPDNet")}
    for role in ROLES:
        for more, (access, alignment) in WAYS.items():
            for column, method in columns.items():
                cell = _cell(table, role.name + more, column, role, method)
                # The text has values with Euclidean alignment for BCI2a only.
                in_text = _printed("text", f"ea-{column.lower()}", "Value").split(" ")
                if alignment == "euclidean" and role is BCI2A and in_text[1:]:
                    cell = replace(cell, reported=in_text[1])
                yield replace(cell, protocol=ACROSS, access=access, alignment=alignment)


@experiment("input", "Tokens against raw time series")
def _input(_table: str, _present: Present) -> Iterator[Cell]:
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
def _bands(_table: str, _present: Present) -> Iterator[Cell]:
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


@experiment("stability", "Transformer and MLP over ten seeds")
def _stability(_table: str, _present: Present) -> Iterator[Cell]:
    """Log-Euclidean tokens; the paper does not say which data or tokens its two numbers are of."""
    printed = _printed("text", "stability", "Value").split()
    methods = {"Transformer": TOKENS["Log-Euc"], "MLP": "spd-token-mlp"}
    for (row, method), value in zip(methods.items(), printed, strict=True):
        for role in ROLES:
            cell = _cell("stability", row, role.one_subject, role, method, role.subject)
            yield replace(cell, seeds=10, reported=f"spread {value}" if role is BCI2A else "")


@experiment("bandpass", "Across subjects, with and without band-pass filter")
def _bandpass(_table: str, _present: Present) -> Iterator[Cell]:
    """Motor imagery; the paper does not say which tokens 26.87 is of."""
    for row, bands in (("4-40 Hz", BCI2A.bands), ("no filter", "none")):
        for column, method in TOKENS.items():
            reported = _printed("cross-subject", "BCI2a", column).split(" [")[0]
            if bands == "none":
                reported = _printed("text", "loso-unfiltered", "Value")
            choice = Choice(method, replace(BCI2A.settings(), bands=bands))
            yield Cell(row, column, BCI2A, choice, protocol=ACROSS, reported=reported)


experiment("epochs", "Longer training of multi-band tokens (the paper's future work)")(
    _crossed(
        dict.fromkeys(("50 epochs", "200 epochs"), TOKENS["Log-Euc"]),
        one_subject=True,
        multiband=True,
        epochs={"50 epochs": 50, "200 epochs": 200},
    )
)


@experiment("adversarial", "Adversarial adaptation across subjects (the paper's future work)")
def _adversarial(_table: str, _present: Present) -> Iterator[Cell]:
    """Motor imagery, Log-Euclidean tokens. A second head learns the subject, against the first."""
    log, head = TOKENS["Log-Euc"], "token-adversarial"
    for row, method, (access, alignment) in (
        ("none", log, WAYS[""]),
        ("adversarial, training subjects", head, WAYS[""]),
        ("adversarial, with unlabelled target", head, ("unlabeled_full", "none")),
        ("Euclidean alignment", log, WAYS[", Euclidean alignment"]),
        ("Riemannian recentring", log, WAYS[", Riemannian recentring"]),
    ):
        cell = _cell("adversarial", row, BCI2A.name, BCI2A, method)
        yield replace(cell, protocol=ACROSS, access=access, alignment=alignment)


@experiment("emg", "Another biosignal: simulated EMG (the paper's future work)")
def _emg(_table: str, _present: Present) -> Iterator[Cell]:
    """Five gestures, eight electrodes around the forearm; first session to second."""
    for row, method in (TOKENS | {"TS+LR": OTHERS["TS+LR"]}).items():
        yield _cell("emg", row, EMG.sim, EMG, method)
