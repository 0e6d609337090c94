"""A raw reply and its text are stored apart, and come together again byte for byte."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from trialrun.core.envelope import close, open_

_TEXTS = st.one_of(
    st.text(),
    st.text(alphabet="ab", min_size=20, max_size=90),
    st.builds(lambda word, times: word * times, st.text(min_size=1, max_size=5), st.integers(1, 40)),
)


@given(_TEXTS, _TEXTS, _TEXTS)
def test_a_body_comes_back_as_it_came(before: str, text: str, after: str):
    body = msgspec.json.encode([before, text, after])
    assert close(open_(body, text), text) == body


@given(st.text(max_size=50), st.text(alphabet="xyz é\n", min_size=10, max_size=200))
def test_a_text_is_taken_out_also_where_its_first_words_stand_before_it(before: str, text: str):
    body = msgspec.json.encode([text[:-1], before, text])
    assert len(open_(body, text)) < len(body)
