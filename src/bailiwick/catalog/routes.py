"""The paths of the Iceberg REST protocol that we serve, and what each means.

Paths are taken apart before they are decoded: a table's name may hold a slash. Engines encode names as forms
do, so a plus sign is a space.
"""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl, unquote_plus

from bailiwick.catalog.refusals import BadRequestError, NoSuchEndpointError
from bailiwick.names import Namespace, parted

PREFIX = "/iceberg/v1/"
_QUERY_FIELDS_MAX = 20


class Route(StrEnum):
    """Every call we answer, as the protocol writes it."""

    CONFIG = "GET /v1/config"
    LIST_NAMESPACES = "GET /v1/{prefix}/namespaces"
    CREATE_NAMESPACE = "POST /v1/{prefix}/namespaces"
    LOAD_NAMESPACE = "GET /v1/{prefix}/namespaces/{namespace}"
    NAMESPACE_EXISTS = "HEAD /v1/{prefix}/namespaces/{namespace}"
    DROP_NAMESPACE = "DELETE /v1/{prefix}/namespaces/{namespace}"
    UPDATE_NAMESPACE = "POST /v1/{prefix}/namespaces/{namespace}/properties"
    LIST_TABLES = "GET /v1/{prefix}/namespaces/{namespace}/tables"
    CREATE_TABLE = "POST /v1/{prefix}/namespaces/{namespace}/tables"
    LOAD_TABLE = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"
    TABLE_EXISTS = "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}"
    COMMIT_TABLE = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"
    DROP_TABLE = "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}"
    REGISTER_TABLE = "POST /v1/{prefix}/namespaces/{namespace}/register"
    RENAME_TABLE = "POST /v1/{prefix}/tables/rename"
    COMMIT_TRANSACTION = "POST /v1/{prefix}/transactions/commit"
    LIST_VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"
    CREATE_VIEW = "POST /v1/{prefix}/namespaces/{namespace}/views"
    LOAD_VIEW = "GET /v1/{prefix}/namespaces/{namespace}/views/{view}"
    VIEW_EXISTS = "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}"
    COMMIT_VIEW = "POST /v1/{prefix}/namespaces/{namespace}/views/{view}"
    DROP_VIEW = "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}"
    RENAME_VIEW = "POST /v1/{prefix}/views/rename"

    @property
    def reads(self) -> bool:
        return self.value.startswith(("GET ", "HEAD "))


ENDPOINTS = [route.value for route in Route if route is not Route.CONFIG]
"""What `/v1/config` tells: clients leave off whatever is not listed."""


@dataclass(frozen=True, slots=True)
class Target:
    """A route with the names in its path."""

    route: Route
    namespace: Namespace = ()
    name: str = ""


def _pattern(route: Route) -> tuple[str, ...]:
    method, path = route.value.split(" ")
    steps = path.removeprefix("/v1/").removeprefix("{prefix}/").split("/")
    return (method, *("*" if step.startswith("{") else step for step in steps))


_ROUTES = {_pattern(route): route for route in Route}


def target_of(method: str, raw_path: str) -> Target:
    """What a request is about. Raises NoSuchEndpointError."""
    if raw_path.startswith(PREFIX):
        steps = raw_path[len(PREFIX) :].split("/")
        route = _ROUTES.get((method, *("*" if index % 2 else step for index, step in enumerate(steps))))
        if route is not None:
            return Target(route, *(_names(steps)))
        route = _ROUTES.get((method, *steps))
        if route is not None:
            return Target(route)
    raise NoSuchEndpointError("there is no such endpoint")


def fields_of(query_string: bytes) -> dict[str, str]:
    """The parameters after the question mark. Raises BadRequestError."""
    if not query_string:
        return {}
    try:
        return dict(
            parse_qsl(query_string.decode("ascii"), max_num_fields=_QUERY_FIELDS_MAX, errors="strict")
        )
    except ValueError as error:
        raise BadRequestError("the parameters are malformed") from error


def _names(steps: list[str]) -> tuple[Namespace, str]:
    namespace = parted(_decoded(steps[1])) if len(steps) > 1 else ()
    return namespace, _decoded(steps[3]) if len(steps) > 3 else ""


def _decoded(step: str) -> str:
    try:
        return unquote_plus(step, errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequestError("a name must be valid UTF-8") from error
