"""What operators and schedulers ask over HTTP: alive, ready, numbers. No credentials, no secrets."""

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def health_app(
    *, is_ready: Callable[[], bool], metrics: Callable[[], bytes], more: Sequence[Route] = ()
) -> Starlette:
    """`/healthz` while the process answers, `/readyz` while queries would work, `/metrics` for Prometheus.

    `more` are routes for others than people, which see to it themselves who may call.
    """

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        if is_ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready: no engine answers\n", status_code=503)

    async def metrics_page(_request: Request) -> Response:
        return Response(metrics(), media_type=METRICS_TYPE)

    return Starlette(
        routes=[
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", metrics_page, methods=["GET"]),
            *more,
        ]
    )
