"""The numbers of the report: what the store holds, beside what the paper printed. No drawing."""

from hopscale_reproduction.views.book import Book, Value

__all__ = ["Book", "Value"]
