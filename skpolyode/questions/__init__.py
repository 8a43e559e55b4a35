"""Questions to a path: means and integrals over windows, slopes, and how sure they are."""

__all__: list[str] = []
