"""The report: the paper's numbers and ours, side by side. It reads the store and writes files."""
