"""Reading the JSON of records fast, also that which is not quite JSON."""

import json
from typing import Any

import msgspec


class JSONReader[T]:
    """Reads texts as one type; what is not in the type is skipped.

    A journal may hold half a surrogate, which is no Unicode and which msgspec refuses: then the standard library reads
    it, ten times slower.
    """

    def __init__(self, target_type: type[T]) -> None:
        self._target_type, self._decoder = target_type, msgspec.json.Decoder(target_type)

    def read(self, text: str) -> T:
        """Returns the data of a record.

        Raises:
            msgspec.ValidationError: It is of another form.
        """
        try:
            return self._decoder.decode(text)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return msgspec.convert(json.loads(text), self._target_type)


dict_reader: JSONReader[Any] = JSONReader(dict)
