"""Units of signals."""

from __future__ import annotations

from spdtokens.errors import DataError, UserError

#: Names of units, as senders and users write them, in volts.
UNITS = {
    **dict.fromkeys(("volts", "volt", "v"), 1.0),
    **dict.fromkeys(("millivolts", "millivolt", "mv", "-3"), 1e-3),
    **dict.fromkeys(("microvolts", "microvolt", "uv", "µv", "μv", "-6"), 1e-6),
    **dict.fromkeys(("nanovolts", "nanovolt", "nv", "-9"), 1e-9),
}


def volts_of(unit: str | None, error: type[UserError] = DataError) -> float | None:
    """Convert the name of a unit to volts.

    Parameters
    ----------
    unit : {'V', 'mV', 'uV', 'nV'} or None
        Name of the unit.
    error : type, default=DataError
        Class of the error to raise.

    Returns
    -------
    float or None
        The unit in volts; None if ``unit`` is None.

    Raises
    ------
    UserError
        If the unit is not known, of the class ``error``.
    """
    if unit is None:
        return None
    if not isinstance(unit, str) or unit.casefold() not in UNITS:
        raise error(f"unit must be V, mV, uV or nV, got {unit!r}.")
    return UNITS[unit.casefold()]


def agreed_unit(stated: float | None, given: float | None, where: str) -> float | None:
    """Return the unit that is stated, or given for signals that do not state theirs.

    Parameters
    ----------
    stated : float or None
        Unit in volts that the file or data set states; None if it does not.
    given : float or None
        Unit in volts that the user passes; None if there is none.
    where : str
        Name of the file or data set, for the error message.

    Returns
    -------
    float or None
        The unit in volts; None if it is unknown.

    Raises
    ------
    DataError
        If both are known and differ.
    """
    if stated is None or given is None:
        return given if stated is None else stated
    # Both are powers of ten; a file may store one as float32.
    if abs(stated - given) > 1e-6 * given:
        raise DataError(
            f"{where} states that its signals are in units of {stated:g} V, but unit is "
            f"{given:g} V. Remove the option unit, or correct the file."
        )
    return stated
