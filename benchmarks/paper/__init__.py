"""The tables of the PolyODE paper, made again: one module with a command for each.

    python -m benchmarks.paper.classification   the synthetic sets, three rates, two protocols
    python -m benchmarks.paper.printed          tables 1 and 3 as they are printed
    python -m benchmarks.paper.through_time     the past by running backward, and forecasts
    python -m benchmarks.paper.mimic --path ... MIMIC-III, from your own file
    python -m benchmarks.paper.physionet --path ... the same on open data
    python -m benchmarks.paper.solvers          standard solvers against the exact memory
    python -m benchmarks.paper.hyperparameters  the paper's choices beside the defaults

`rows` says what is compared, `cells`, `metrics` and `mimic_cells` how one number is made, `store`
keeps what has been computed, `runner` computes what is missing, `tables` and `beside` write it
down. `backward` runs dynamics back in time. `study` has PolyODE with the paper's own choices.
"""
