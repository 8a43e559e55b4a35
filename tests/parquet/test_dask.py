"""The call that runs on one machine runs on a Dask cluster."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
from dask.distributed import Client, LocalCluster

from skpolyode import HiPPOTransformer, Panel
from skpolyode.parquet import embed_dataset


# Threads of joblib's table of what it sent may forget one object twice, which Python then prints.
@pytest.mark.filterwarnings("ignore:.*_WeakKeyDictionary:pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_gives_the_same(tmp_path):
    rng = np.random.default_rng(0)
    times = np.tile(np.arange(20.0), 15)
    table = pd.DataFrame({"id": np.repeat(np.arange(15), 20), "time": times})
    table["x"] = rng.normal(size=len(table))
    table.to_parquet(tmp_path / "series.parquet")
    embedder = HiPPOTransformer(n_coefficients=3).fit(Panel.from_long(table, id="id", time="time"))
    settings = {"source": tmp_path / "series.parquet", "rows_per_chunk": 50}
    embed_dataset(embedder, sink=tmp_path / "one", **settings)
    # Workers that are threads start at once; nothing else differs for the call.
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, Client(cluster), joblib.parallel_config(backend="dask"):
        embed_dataset(embedder, sink=tmp_path / "dask", **settings)
    assert len(list((tmp_path / "dask").glob("part-*.parquet"))) == 5
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "dask"), pd.read_parquet(tmp_path / "one"), check_exact=True
    )
