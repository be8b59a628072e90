"""The health service: the reports to a watch, under events during a report."""

from grpc_health.v1 import health_pb2

from nameserver.driver.health import Health

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class WatcherDuringWhoseFirstMessageTheServerEnds:
    """A servicer context that keeps what is written to it."""

    def __init__(self, health):
        self.statuses = []
        self._health = health

    async def write(self, response):
        self.statuses.append(response.status)
        self._health.end()


async def test_a_server_that_ends_while_a_status_is_written_still_says_that_it_ends():
    health = Health(())
    health.report(serving=True)
    watcher = WatcherDuringWhoseFirstMessageTheServerEnds(health)
    await health.watch(health_pb2.HealthCheckRequest(), watcher)
    assert watcher.statuses == [SERVING, NOT_SERVING]
