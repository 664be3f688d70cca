"""What tests of workflows share: a real Temporal server for each module."""

import pytest_asyncio

from engine import real_server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server():
    async with real_server() as env:
        yield env
