"""The paper as data: its theory checked numerically; later its tables, figures and the audit."""
