"""Why the catalog says no.

Each is a BailiwickError for callers in this process, and knows what Iceberg's REST protocol calls it, so that
Spark raises the exception it would raise with any other catalog. Messages are fit for the client.
"""

from typing import ClassVar

from bailiwick.errors import BailiwickError, Code


class CatalogError(BailiwickError):
    """Something the catalog will not or cannot do."""

    status: ClassVar[int] = 500
    type_name: ClassVar[str] = "ServerError"
    error_code: ClassVar[Code] = Code.CATALOG_ERROR

    def __init__(self, message: str, *, cause_text: str | None = None) -> None:
        super().__init__(self.error_code, message, cause_text=cause_text)


class NoSuchNamespaceError(CatalogError):
    status, type_name, error_code = 404, "NoSuchNamespaceException", Code.SCHEMA_NOT_FOUND


class NoSuchTableError(CatalogError):
    status, type_name, error_code = 404, "NoSuchTableException", Code.TABLE_NOT_FOUND


class NoSuchViewError(CatalogError):
    status, type_name, error_code = 404, "NoSuchViewException", Code.VIEW_NOT_FOUND


class NoSuchEndpointError(CatalogError):
    status, type_name, error_code = 404, "NotFoundException", Code.NOT_SUPPORTED


class AlreadyExistsError(CatalogError):
    status, type_name, error_code = 409, "AlreadyExistsException", Code.DUPLICATE_TABLE


class NamespaceNotEmptyError(CatalogError):
    status, type_name, error_code = 409, "NamespaceNotEmptyException", Code.INVALID_ARGUMENTS


class CommitFailedError(CatalogError):
    """Somebody else was first. Nothing was changed; the writer may look again and retry."""

    status, type_name, error_code = 409, "CommitFailedException", Code.COMMIT_CONFLICT


class BaseMovedError(CommitFailedError):
    """A table is not what it was when the commit was judged: it must be judged again."""


class KeyReusedError(CatalogError):
    """An idempotency key stands for one call, whoever sends it again."""

    status, type_name, error_code = 422, "UnprocessableEntityException", Code.INVALID_ARGUMENTS


class StillBusyError(CatalogError):
    """The same call is being done already and takes its time."""

    status, type_name, error_code = 503, "ServiceUnavailableException", Code.CATALOG_ERROR


class UnavailableError(CatalogError):
    """Where the pointers are kept does not answer. Nothing was changed: engines ask again by themselves."""

    status, type_name, error_code = 503, "ServiceUnavailableException", Code.CATALOG_UNAVAILABLE


class BadRequestError(CatalogError):
    status, type_name, error_code = 400, "BadRequestException", Code.INVALID_ARGUMENTS


class TooLargeError(CatalogError):
    status, type_name, error_code = 413, "BadRequestException", Code.INVALID_ARGUMENTS


class NotAuthorizedError(CatalogError):
    status, type_name, error_code = 401, "NotAuthorizedException", Code.AUTHENTICATION_FAILED


class ForbiddenError(CatalogError):
    status, type_name, error_code = 403, "ForbiddenException", Code.ACCESS_DENIED


class DamagedMetadataError(CatalogError):
    """A metadata file is missing or unreadable. The client learns no more than that."""

    status, type_name, error_code = 500, "ServiceFailureException", Code.CATALOG_ERROR
