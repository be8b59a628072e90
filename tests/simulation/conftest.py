"""Fixtures for scenes of servers that part."""

import pytest

from namegraph.model.operations import JoinArc
from tests.simulation.scene import A, B, C, G, Scene


@pytest.fixture
def loop():
    """Return a loop through all three servers."""
    scene = Scene()
    for above, below in ((A, B), (B, C), (C, A)):
        scene.done(above, JoinArc(G[above], G[below]))
    return scene
