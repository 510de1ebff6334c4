"""Taking out of a text what must not leave the house.

`scrub` is for texts of the engine that a client will read: hosts, locations, paths, keys, stack traces and
object ids give way to placeholders. `scrub_secrets` is for our own log: only what opens a door is taken out.
Both work on text alone and know nothing of where it came from, so they err on the side of taking too much;
a user's own mistake is therefore shown without them (see `engines/spark_messages.py`).
"""

import ipaddress
import re
from typing import Final

TEXT_LENGTH_MAX: Final = 20_000
"""Longer texts are cut first: an error is read by people, and regular expressions should not read novels."""

_NAMES_OF_SECRETS = (
    r"(?:password|passwd|passphrase|secret|token|credentials?|api[._-]?key|access[._-]?key(?:[._-]?id)?"
    r"|private[._-]?key|account[._-]?key|signature|x-amz-[a-z-]+|authorization|cookie"
    r"|bailiwick\.stamp|x-bailiwick-(?:session|policy|lease)|(?<![a-z])(?:pass|pwd|sig|sas))"
)
# A quote that was never closed, because the text was cut, hides everything up to the end.
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.|'')*'?|[^\s,;&"'})\]]+)"""

_SECRETS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL), "<key>"),
    (
        re.compile(r"(?i)\b(bearer|basic)\s+(?=[\w.~+/=-]*[\d.~+/=_-]|[\w-]{16})[\w.~+/=-]{8,}"),
        r"\1 <secret>",
    ),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"), "<secret>"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{35}|\bgh[pousr]_\w{20,}"), "<secret>"),
    # Our own: the id of a static token may be told, and names it.
    (re.compile(r"\b(bw_[0-9a-z]{12}_)[0-9a-z]+|\bbws_[\w-]{16,}"), r"\1<secret>"),
    # `password = x`, `"token": "x"`, `spark.hadoop.fs.s3a.secret.key=x`. A colon alone does not do for an
    # unquoted `token`: parsers write "unexpected token: x".
    (
        re.compile(rf"(?i)({_NAMES_OF_SECRETS}[\w.-]{{0,100}}[\"']?\s{{0,9}}=>?\s{{0,9}}){_VALUE}"),
        r"\1<secret>",
    ),
    (re.compile(rf"(?i)({_NAMES_OF_SECRETS}[\w.-]{{0,100}}[\"']\s{{0,9}}:\s{{0,9}}){_VALUE}"), r"\1<secret>"),
    (
        re.compile(
            r"(?i)(\b(?:pass(?:word|wd)|secret|authorization|x-bailiwick-(?:session|policy|lease))"
            rf"\s{{0,9}}:\s{{0,9}})(?:basic |bearer )?{_VALUE}"
        ),
        r"\1<secret>",
    ),
    # `PASSWORD 'x'`, `OPTIONS (secret_key "x", 'account.key' 'x')`.
    (
        re.compile(
            r"(?i)((?:\b|[._-])(?:password|passphrase|(?:secret|access|account|private)[._-]?key|secret"
            r"|identified\s{1,9}by)[\w.-]{0,100}['\"`]?\s{1,9})(?:'(?:[^'\\]|\\.|'')*'?|\"(?:[^\"\\]|\\.)*\"?)"
        ),
        r"\1'<secret>'",
    ),
)

_SIGNS_OF_SECRETS: Final = (
    *("pass", "pwd", "secret", "token", "credential", "key", "sig", "sas", "x-amz-", "authorization"),
    *("bearer", "basic", "eyj", "akia", "asia", "aiza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("bw_", "bws_", "bailiwick.stamp", "x-bailiwick-"),
    *("-----begin ", "identified", "cookie", "://"),
)
"""Without any of these, in lower case, there is nothing to find for `_SECRETS` and `_USERINFO`."""

_USERINFO: Final = re.compile(r"(://)[^\s/@]{1,300}@")

_FRAME = r"[ \t]*(?:at [\w.$<>/@ -]+\([^()\n]*\)|\.\.\. \d+ (?:more|common frames omitted).*|Suppressed: .*)"
_TRACES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (
        re.compile(
            rf"(?m)\n(?:{_FRAME}|[ \t]*Caused by: .*|Driver stacktrace:.*|JVM stacktrace:.*)(?=\n|\Z)"
        ),
        "",
    ),
    (re.compile(r"(?m)^Traceback \(most recent call last\):\n?"), ""),
    (re.compile(r'(?m)^[ \t]*File "[^"\n]*", line \d+.*\n?(?:[ \t]{2,}(?!File ").*(?:\n|\Z))*'), ""),
    (re.compile(r"(?m)^Driver stacktrace:.*\n?"), ""),
)

_HOST_SUFFIX = (
    r"(?:internal|local|localdomain|svc|amazonaws\.com|windows\.net|googleapis\.com|cloudfront\.net)"
)
_PLACES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"(?i)\bjdbc:[a-z0-9]+:[^\s'\"<>)\]]+"), "<location>"),
    (
        re.compile(
            r"(?i)\b(?:s3[an]?|gs|abfss?|wasbs?|adl|hdfs|oss|viewfs|file|dbfs|r2|memory)://?[^\s'\"`<>)\],;]*"
        ),
        "<location>",
    ),
    (re.compile(r"(?i)\bhttps?://[^\s'\"`<>)\]]+"), "<url>"),
    (re.compile(r"(?i)(?<![\w+.-])[a-z][a-z0-9+.-]{0,30}://[^\s'\"`<>)\]]+"), "<url>"),
    (re.compile(r"(?<![\w.<])[\w.-]*/(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?"), "<host>"),
    (re.compile(r"(?<![\w/.<~])~?/(?:[\w.@+~=%$#:{}-]+/)+[\w.@+~=%$#:{}-]*"), "<path>"),
    (re.compile(r"(?<![\w/.<])/(?:tmp|home|root|var|usr|opt|etc|mnt|data|private|Users)\b(?!\.)"), "<path>"),
    (re.compile(r"(?<!\w)[A-Za-z]:\\[^\s'\"<>|]+"), "<path>"),
    (re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?![\w.]\d)"), "<host>"),
    (re.compile(r"(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.[a-z][\w-]*:\d{2,5}\b"), "<host>"),
    (re.compile(rf"(?i)(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.{_HOST_SUFFIX}(?![\w-])(?::\d+)?"), "<host>"),
    (re.compile(r"(?i)\blocalhost(?::\d+)?\b"), "<host>"),
    (
        re.compile(
            r"(?i)(\b(?:connect(?:ing|ion)? (?:to|from)|connected to|address|server)[ :=]+)[\w-]+:\d{2,5}\b"
        ),
        r"\1<host>",
    ),
    (re.compile(r"(UnknownHostException: )[\w.-]+(?:: [^\n]*)?"), r"\1<host>"),
    (re.compile(r"\(([\w.:-]+) executor (\w+)\)"), r"(<host> executor \2)"),
)

_IDS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\bL[0-9a-hjkmnp-tv-z]{26}\b"), "<id>"),
    (re.compile(r"(?<=[\w\])$;])@[0-9a-f]{4,16}\b"), "@<id>"),
)

_IPV6_CANDIDATE = re.compile(
    r"(?<![\w:.])\[?([0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:%\w+)?)\]?(:\d{1,5})?(?![\w:])"
)


def scrub(text: str) -> str:
    """`text` without secrets, stack traces, places and ids. Harmless text comes back unchanged."""
    text = _USERINFO.sub(r"\1", bounded(text))
    for group in (_TRACES, _SECRETS, _PLACES):
        text = _apply(text, group)
    text = _IPV6_CANDIDATE.sub(_without_ipv6, text)
    return _apply(text, _IDS).strip()


def scrub_secrets(text: str) -> str:
    """`text` without passwords, tokens and keys; everything else stays, for the log."""
    folded = text.casefold()
    if not any(sign in folded for sign in _SIGNS_OF_SECRETS):
        return text
    return _apply(_USERINFO.sub(r"\1<secret>@", text), _SECRETS)


def without_traces(text: str) -> str:
    """`text` without the stack frames of a JVM or a Python."""
    return _apply(text, _TRACES)


def bounded(text: str, length_max: int = TEXT_LENGTH_MAX) -> str:
    """At most `length_max` characters, with a mark where something is missing."""
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def _apply(text: str, rules: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def _without_ipv6(match: re.Match[str]) -> str:
    """Times of day and casts written `a::b` look alike; only what really is an address goes."""
    candidate = match[1].partition("%")[0]
    if not any(character.isdigit() for character in candidate):
        return match[0]
    try:
        ipaddress.ip_address(candidate)
    except ValueError:
        return match[0]
    return "<host>"
