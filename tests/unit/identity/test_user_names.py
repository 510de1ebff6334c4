"""Which names a user may have."""

import pytest

from bailiwick.errors import BailiwickError
from bailiwick.identity.users import check_name


@pytest.mark.parametrize("name", ["bailiwick-canary", "Bailiwick-policy"])
def test_the_names_of_the_gateway_itself_are_taken(name: str) -> None:
    with pytest.raises(BailiwickError, match="the gateway's own"):
        check_name(name)
