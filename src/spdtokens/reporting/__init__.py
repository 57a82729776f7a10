"""The report of a study: sentences, tables and figures in one HTML file."""
