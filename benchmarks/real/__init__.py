"""Real wards, storms, patients and single series: see `python -m benchmarks.real --help`."""
