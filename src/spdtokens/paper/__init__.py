"""The paper as data: its tables, its theory checked numerically, and the audit of its numbers."""
