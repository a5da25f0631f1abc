"""The words of a statement from left to right, with their places; errors point to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sqlglot import Token, TokenType
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError

from pudi.errors import InvalidArgumentError, NotSupportedError, PudiError
from pudi.statement.tree import TableName, Text

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_LONGEST = 60
_Item = TypeVar("_Item")


def place(text: str, at: int) -> str:
    """A place of a statement for messages: line, column, and what stands there."""
    before = text[:at]
    line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
    rest = text[at:].strip().splitlines()
    near = rest[0][:_LONGEST] if rest else ""
    return f"line {line}, column {column}, {f'near {near!r}' if near else 'at the end'}"


def wrong(text: str, at: int, message: str) -> InvalidArgumentError:
    """The error of a statement that has something wrong at a place."""
    return InvalidArgumentError(f"SQL, {place(text, at)}: {message}")


@contextmanager
def placed(text: str, at: int) -> Iterator[None]:
    """Add the place in the statement to errors that don't name one."""
    try:
        yield
    except PudiError as error:
        if error.message.startswith("SQL, "):
            raise
        raise type(error)(
            f"SQL, {place(text, at)}: {error.message}", table=error.table, path=error.path, instant=error.instant
        ) from error


class _Tokenizer(Spark.Tokenizer):  # type: ignore[misc]  # sqlglot doesn't tell its type
    """Reads all words: sqlglot's takes what follows SHOW or CALL for one text."""

    COMMANDS: set[TokenType] = set()  # noqa: RUF012


_SINGLE = "the end of the statement is expected; statements are run one by one"


class Reader:
    """Reads a statement.

    Args:
        text: the statement.
        names_in_double_quotes: whether double quotes hold names, not texts
            (`spark.sql.ansi.doubleQuotedIdentifiers`).

    Raises:
        InvalidArgumentError: a text or a quoted name has no end.
    """

    def __init__(self, text: str, *, names_in_double_quotes: bool = False) -> None:
        self.text = text
        self._name_quotes = ("`", '"') if names_in_double_quotes else ("`",)
        try:
            tokens = list(_Tokenizer(dialect=Spark()).tokenize(text))
        except SqlglotError as error:
            raise InvalidArgumentError(f"SQL: a text, name or comment has no end ({error})") from error
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        self.tokens: Sequence[Token] = tokens
        self.end = tokens[-1].end + 1 if tokens else 0
        self.position = 0

    @property
    def at(self) -> int:
        """Return the place where the next word begins."""
        return int(self.tokens[self.position].start) if self.more else self.end

    @property
    def more(self) -> bool:
        """Whether there is another word."""
        return self.position < len(self.tokens)

    def wrong(self, message: str, at: int | None = None) -> InvalidArgumentError:
        """The error at the next word, or at a place."""
        return wrong(self.text, self.at if at is None else at, message)

    def refused(self, message: str, at: int | None = None) -> NotSupportedError:
        """The error of what pudi doesn't run, at the next word or at a place."""
        return NotSupportedError(f"SQL, {place(self.text, self.at if at is None else at)}: {message}")

    def word(self, ahead: int = 0) -> str:
        """A word to come, in upper case; empty for a text, a quoted name, and at the end."""
        place = self.position + ahead
        if place >= len(self.tokens):
            return ""
        token = self.tokens[place]
        quoted = token.token_type is TokenType.STRING or self.text[token.start] in self._name_quotes
        return "" if quoted else " ".join(self.text[token.start : token.end + 1].upper().split())

    def sees(self, *words: str) -> bool:
        """Whether these words come next. Some come as one token from sqlglot: `ORDER BY`."""
        return " ".join(self.word(n) for n in range(len(words))) == " ".join(words)

    def takes(self, *words: str) -> bool:
        """Read these words if they come next."""
        if not self.sees(*words):
            return False
        self.position += len(words)
        return True

    def need(self, *words: str) -> None:
        """Read these words.

        Raises:
            InvalidArgumentError: others come.
        """
        if not self.takes(*words):
            raise self.wrong(f"{' '.join(words)} is expected")

    def one_of(self, *words: str) -> str:
        """Read one of these words."""
        found = self.word()
        if found not in words:
            raise self.wrong(f"{' or '.join(words)} is expected")
        self.position += 1
        return found

    def _token(self, expected: str) -> Token:
        if not self.more:
            raise self.wrong(f"{expected} is expected")
        self.position += 1
        return self.tokens[self.position - 1]

    def name(self, what: str = "a name") -> str:
        """Read a name, quoted or not."""
        token = self._token(what)
        raw = self.text[token.start : token.end + 1]
        if raw.startswith(self._name_quotes):
            return raw[1:-1].replace(raw[0] * 2, raw[0])
        if not (raw.replace("_", "a").isalnum() and not raw[0].isdigit()):
            raise self.wrong(f"{what} is expected", token.start)
        return raw

    def listed(self, item: Callable[[], _Item], by: str = ",") -> tuple[_Item, ...]:
        """Read items, each by a function, with a sign between them."""
        found = [item()]
        while self.takes(by):
            found.append(item())
        return tuple(found)

    def in_parentheses(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Read items in parentheses, each by a function, with commas between them."""
        self.need("(")
        found = self.listed(item)
        self.need(")")
        return found

    def names(self) -> tuple[str, ...]:
        """Read names in parentheses, of columns inside structs with dots."""
        return self.in_parentheses(self.dotted)

    def dotted(self, what: str = "a column") -> str:
        """Read a name that may have dots."""
        return ".".join(self.listed(lambda: self.name(what), "."))

    def table(self) -> TableName:
        """Read the name of a table."""
        at = self.at
        return TableName(self.listed(lambda: self.name("a table"), "."), at)

    def string(self, what: str = "a text in quotes") -> str:
        """Read a text in quotes."""
        if not self.is_string():
            raise self.wrong(f"{what} is expected")
        return str(self._token(what).text)

    def is_string(self) -> bool:
        """Whether a text in quotes comes next."""
        if not self.more or self.tokens[self.position].token_type is not TokenType.STRING:
            return False
        return not self.text.startswith(self._name_quotes, self.at)

    def plain(self, what: str = "a value") -> str:
        """Read a text in quotes, or a word or number as it stands."""
        if self.is_string():
            return self.string()
        sign = "-" if self.takes("-") else ""
        token = self._token(what)
        return sign + self.text[token.start : token.end + 1]

    def whole_number(self) -> int:
        """Read a whole number without quotes."""
        token = self._token("a whole number")
        text = self.text[token.start : token.end + 1]
        if token.token_type is TokenType.STRING or not text.isdecimal():
            raise self.wrong("a whole number is expected", int(token.start))
        return int(text)

    def until(self, *ends: str, what: str) -> Text:
        """Read up to one of these words outside of parentheses and CASE, or to a closing one, or to the end.

        Args:
            ends: the words; `,` too.
            what: what is read, for the error if nothing comes.
        """
        begin, depth, cases = self.position, 0, 0
        while self.more:
            kind, word = self.tokens[self.position].token_type, self.word()
            if depth == 0 and cases == 0 and (word in ends or kind in _CLOSE):
                break
            depth += (kind in _OPEN) - (kind in _CLOSE)
            if not (self.position > begin and self.word(-1) == "."):  # columns may have these names
                cases += (word == "CASE") - (word == "END" and cases > 0)
            self.position += 1
        if begin == self.position:
            raise self.wrong(f"{what} is expected")
        start = int(self.tokens[begin].start)
        return Text(self.text[start : self.tokens[self.position - 1].end + 1], start)

    def inside(self, what: str) -> Text:
        """Read what stands in parentheses."""
        self.need("(")
        found = self.until(what=what)
        self.need(")")
        return found

    def check_single(self) -> None:
        """Refuse a second statement behind a semicolon."""
        second = next((token for token in self.tokens if token.token_type is TokenType.SEMICOLON), None)
        if second is not None:
            raise self.wrong(_SINGLE, int(second.start))

    def finish(self) -> None:
        """See that the statement ends here."""
        if self.more:
            raise self.wrong(_SINGLE)
