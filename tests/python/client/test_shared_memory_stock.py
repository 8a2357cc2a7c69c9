"""What a pool remembers of its regions and their views, without a server."""

from __future__ import annotations

import numpy as np

from endcap.client.regions.lease import Lease
from endcap.client.regions.pool_regions import RegionStates
from endcap.client.regions.region import SystemRegion


def test_a_stock_remembers_only_leases_whose_views_live() -> None:
    states = RegionStates(1)
    regions = [SystemRegion(4096) for _ in range(3)]
    kept = []
    try:
        for number, region in enumerate(regions):
            states.add_lent(region)
            lease = Lease(region)
            kept = [lease.empty(f"tensor {number}", (4,), np.int32)[0]]
            states.end(lease)
        assert states.viewed() == [["tensor 2"]]
        assert len(states._viewed) <= 2  # nor does it grow where nobody asks
        kept.clear()
        assert states.viewed() == []
    finally:
        for region in regions:
            region.remove()
