"""All settings, in one place: defaults, then the TOML file, then the environment, then the command line.

`BAILIWICK__SECTION__KEY` overrides `key` in `[section]`, `BAILIWICK_KEY` one that stands before all sections.
Unknown keys are refused, every mistake is reported at once, and each says where it stands. Secrets come from
the environment or from a file of their own (`BAILIWICK__SECTION__KEY_FILE`), never from the TOML file. Each
package owns its section; this module only puts them together.

The models are plain pydantic. pydantic-settings merges the same sources, but forgets which of them a value
came from and passes over variables that match no field; both are what a person with a typing mistake needs.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from bailiwick.catalog.config import CatalogConfig
from bailiwick.database.config import DatabaseConfig
from bailiwick.doors.config import TlsConfig
from bailiwick.doors.listening import plaintext_problem
from bailiwick.doors.spark_connect.config import SparkConnectConfig
from bailiwick.engines.config import EngineConfig, PoolConfig
from bailiwick.fleet.config import FleetConfig
from bailiwick.identity.config import IdentityConfig
from bailiwick.queries.config import LimitsConfig, SessionsConfig
from bailiwick.results.config import ResultsConfig
from bailiwick.secrets import InsecureFileError, read_secret
from bailiwick.telemetry.config import LoggingConfig, TracingConfig

ENVIRONMENT_PREFIX: Final = "BAILIWICK__"
LOOSE_PREFIX: Final = "BAILIWICK_"
NO_SECTION: Final = ""
FILE_BYTES_MAX: Final = 1 << 20
_SHOWN_LENGTH_MAX: Final = 60

Model = TypeVar("Model", bound=BaseModel)
Profile = Literal["dev-local", "single-node-durable", "distributed-durable"]


class ServerConfig(BaseModel):
    """Where people connect."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bind: tuple[str, ...] = Field(
        default=("127.0.0.1", "::1"),
        min_length=1,
        max_length=16,
        description="Addresses to listen on. Others than loopback need TLS.",
    )
    grpc_port: int = Field(
        default=50051, ge=0, le=65535, description="Flight SQL and gRPC health; 0 takes a free port."
    )
    http_port: int = Field(
        default=8080, ge=0, le=65535, description="`/healthz`, `/readyz`, `/metrics`; 0 takes a free port."
    )
    advertised: str | None = Field(
        default=None, description="The host by which other gateways and their clients find this one."
    )
    keys_dir: Path | None = Field(
        default=None,
        description="Where signing and sealing keys are kept. Default: `keys/` in the data directory. "
        "Gateways that share a database share these, too, so that each knows the others' tokens and tickets.",
    )
    plaintext: Literal["refused", "allowed"] = Field(
        default="refused", description="Whether other than loopback addresses are served without TLS."
    )
    drain_s: float = Field(
        default=25.0, ge=0, le=600, description="How long running queries may go on after SIGTERM."
    )
    message_bytes_max: int = Field(
        default=16 << 20, ge=1 << 20, le=256 << 20, description="Largest message a client may send."
    )
    memory_bytes_max: int | None = Field(
        default=None,
        ge=128 << 20,
        description="Memory that this process may hold, its engine aside: of it, `fleet.orange_ratio` and "
        "`red_ratio` are shares. Default: what the machine or container leaves beside the engine's heap.",
    )

    @field_validator("bind")
    @classmethod
    def _addresses(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        if not all(addresses):
            raise ValueError("an address is empty")
        return addresses


class Config(BaseModel):
    """Everything one may set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: Profile = Field(
        default="dev-local",
        description="What is promised. What cannot keep it refuses to start (see profiles.md).",
    )
    server: ServerConfig = ServerConfig()
    tls: TlsConfig = TlsConfig()
    database: DatabaseConfig = DatabaseConfig()
    catalog: CatalogConfig = CatalogConfig()
    engine: EngineConfig = EngineConfig()
    pool: PoolConfig = PoolConfig()
    fleet: FleetConfig = FleetConfig()
    limits: LimitsConfig = LimitsConfig()
    sessions: SessionsConfig = SessionsConfig()
    results: ResultsConfig = ResultsConfig()
    spark_connect: SparkConnectConfig = SparkConnectConfig()
    identity: IdentityConfig = IdentityConfig()
    logging: LoggingConfig = LoggingConfig()
    tracing: TracingConfig = TracingConfig()

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        if self.server.grpc_port == self.server.http_port != 0:
            raise ValueError("server.grpc_port and server.http_port must differ")
        plaintext = plaintext_problem(
            self.server.bind,
            is_encrypted=self.tls.is_on,
            is_allowed=self.server.plaintext == "allowed",
        )
        if plaintext is not None:
            raise ValueError(plaintext)
        if self.limits.timeout_s > self.limits.timeout_max_s:
            raise ValueError("limits.timeout_s must not be above limits.timeout_max_s")
        if self.spark_connect.user_code_roles and self.fleet.trusted_token_file is None:
            raise ValueError(
                "spark_connect.user_code_roles lets code run, but no engine for it can join: set "
                "fleet.trusted_token_file"
            )
        return self


class ConfigError(Exception):
    """The settings do not hold. `problems` names every one of them."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class _Setting:
    """A value for `key` in `[section]`, or before all sections, and where it was found."""

    section: str
    key: str
    value: object = field(repr=False)
    origin: str


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> Config:
    """The settings from all sources; `overrides` are by section. Raises ConfigError with every problem."""
    return gather(Config, file, os.environ if environment is None else environment, overrides or {})


def gather(
    model: type[Model],
    file: Path | None,
    environment: Mapping[str, str],
    overrides: Mapping[str, Mapping[str, Any]],
) -> Model:
    """What `load` does, for any model of sections."""
    problems: list[str] = []
    settings = [
        *_from_file(model, file, problems),
        *_from_environment(model, environment, problems),
        *_from_overrides(overrides),
    ]
    values: dict[str, Any] = {}
    origins: dict[tuple[str, ...], str] = {}
    for setting in settings:
        if setting.section == NO_SECTION:
            values[setting.key] = setting.value
            origins[setting.key,] = setting.origin
        elif _is_known(model, setting, problems):
            values.setdefault(setting.section, {})[setting.key] = setting.value
            origins[setting.section, setting.key] = setting.origin
    try:
        config = model.model_validate(values)
    except ValidationError as error:
        problems += [_told(model, problem, origins) for problem in error.errors(include_url=False)]
    if problems:
        raise ConfigError(problems)
    return config


def sections(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The sections of a model of sections, by name."""
    annotations = {name: field.annotation for name, field in model.model_fields.items()}
    return {
        name: kind
        for name, kind in annotations.items()
        if isinstance(kind, type) and issubclass(kind, BaseModel)
    }


def loose_settings(model: type[BaseModel]) -> frozenset[str]:
    """The settings of a model of sections that stand before all sections."""
    return frozenset(model.model_fields) - frozenset(sections(model))


def _from_file(model: type[BaseModel], file: Path | None, problems: list[str]) -> Iterator[_Setting]:
    if file is None:
        return
    for section, table in _document(file, problems).items():
        if section in loose_settings(model):
            yield _Setting(NO_SECTION, section, table, f"{file.name}: {section}")
            continue
        if not isinstance(table, dict):
            problems.append(f"{file.name}: `{section}` stands outside of any [section]")
            continue
        for key, value in table.items():
            if _is_secret(model, section, key):
                variable = _variable(section, key)
                problems.append(
                    f"{file.name}: [{section}] {key} is a secret; give it as {variable}, or name a file that "
                    f"holds it in {variable}_FILE"
                )
            else:
                yield _Setting(section, key, value, f"{file.name}: [{section}] {key}")


def _document(file: Path, problems: list[str]) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            problems.append(f"{file.name}: larger than {FILE_BYTES_MAX} bytes")
            return {}
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        problems.append(f"{file}: {error.strerror or error}")
    except ValueError as error:
        problems.append(f"{file.name}: not TOML: {error}")
    return {}


def _from_environment(
    model: type[BaseModel], environment: Mapping[str, str], problems: list[str]
) -> Iterator[_Setting]:
    for key in sorted(loose_settings(model)):
        variable = f"{LOOSE_PREFIX}{key}".upper()
        if variable in environment:
            yield _Setting(NO_SECTION, key, environment[variable], variable)
    for variable in sorted(name for name in environment if name.startswith(ENVIRONMENT_PREFIX)):
        section, found, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if not found or not section or not key:
            problems.append(f"{variable}: must be {ENVIRONMENT_PREFIX}SECTION__KEY")
        elif _is_secret(model, section, key.removesuffix("_file")) and key.endswith("_file"):
            yield from _from_secret_file(
                section, key.removesuffix("_file"), variable, environment[variable], problems
            )
        else:
            yield _Setting(section, key, _parsed(model, section, key, environment[variable]), variable)


def _from_secret_file(
    section: str, key: str, variable: str, path: str, problems: list[str]
) -> Iterator[_Setting]:
    try:
        yield _Setting(section, key, read_secret(Path(path)).reveal(), variable)
    except (OSError, ValueError, InsecureFileError) as error:
        problems.append(f"{variable}: {getattr(error, 'strerror', None) or error}")


def _from_overrides(overrides: Mapping[str, Mapping[str, Any]]) -> Iterator[_Setting]:
    for section, given in overrides.items():
        for key, value in given.items():
            yield _Setting(section, key, value, f"--{key.replace('_', '-')}")


def _parsed(model: type[BaseModel], section: str, key: str, text: str) -> object:
    """Variables are text: lists are split at commas, nothing at all means none. pydantic does the rest."""
    annotation = _annotation(model, section, key)
    if get_origin(annotation) is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if text == "" and type(None) in get_args(annotation):
        return None
    return text


def _is_known(model: type[BaseModel], setting: _Setting, problems: list[str]) -> bool:
    known = sections(model)
    if setting.section not in known:
        problem = f"{setting.origin}: there is no section [{setting.section}]{_hint(setting.section, known)}"
        if problem not in problems:
            problems.append(problem)
        return False
    fields = known[setting.section].model_fields
    if setting.key not in fields:
        problems.append(f"{setting.origin}: there is no such setting{_hint(setting.key, fields)}")
        return False
    return True


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _told(model: type[BaseModel], problem: Mapping[str, Any], origins: Mapping[tuple[str, ...], str]) -> str:
    place = tuple(str(part) for part in problem["loc"])
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not place or (len(place) == 1 and place not in origins):
        return message
    inside = [part for part in place[2:] if not part.isdigit()]
    origin = ".".join([origins.get(place[:2], ".".join(place[:2])), *inside])
    is_secret = len(place) > 1 and _is_secret(model, place[0], place[1])
    is_shown = problem["type"] not in ("value_error", "missing") and not is_secret
    given = f", not {repr(problem['input'])[:_SHOWN_LENGTH_MAX]}" if is_shown else ""
    return f"{origin}: {message[:1].lower()}{message[1:]}{given}"


def _variable(section: str, key: str) -> str:
    return f"{ENVIRONMENT_PREFIX}{section}__{key}".upper()


def _annotation(model: type[BaseModel], section: str, key: str) -> Any:
    owner = sections(model).get(section)
    field = owner.model_fields.get(key) if owner is not None else None
    return field.annotation if field is not None else None


def _is_secret(model: type[BaseModel], section: str, key: str) -> bool:
    annotation = _annotation(model, section, key)
    return annotation is SecretStr or SecretStr in get_args(annotation)
