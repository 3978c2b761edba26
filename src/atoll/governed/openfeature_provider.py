"""OpenFeature provider: parameters as feature flags, with the assignment of rollouts.

A flag is a parameter, and the targeting key is the entity. The variant is the arm of a rollout.

    from openfeature import api

    api.set_provider(AtollProvider(AgentClient("http://127.0.0.1:8765", token)))
    api.get_client().get_string_value("prompt/system", "Be kind.", EvaluationContext("user-7"))
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import FlagNotFoundError, GeneralError, TargetingKeyMissingError, TypeMismatchError
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider import AbstractProvider, Metadata

from atoll import errors
from atoll.governed import rollout
from atoll.governed.client import AssignedValue
from atoll.governed.parameters import ParameterStore


class ValueSource(Protocol):
    """Source of values, for example `client.AgentClient` or `StoreValues`."""

    def get_value(self, key: str, entity: str) -> AssignedValue:
        """Returns the value of a parameter for an entity. Raises NotFound if it does not exist."""


class StoreValues:
    """Values of a store that this process can read."""

    def __init__(self, store: ParameterStore) -> None:
        self._store = store

    def get_value(self, key: str, entity: str) -> AssignedValue:
        value, arm = rollout.Rollout(self._store, key).value_for(entity)
        return AssignedValue(key, value, self._store.get(key).version, arm)


class AtollProvider(AbstractProvider):
    """OpenFeature provider over a source of values.

    Args:
        source: Source of the values.
        default_entity: Entity of evaluations without a targeting key; None: such evaluations return the default.
    """

    def __init__(self, source: ValueSource, *, default_entity: str | None = None) -> None:
        super().__init__()
        self._source, self._default_entity = source, default_entity

    def get_metadata(self) -> Metadata:
        return Metadata(name="Atoll")

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        return self._resolve(flag_key, (bool,), evaluation_context)

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        return self._resolve(flag_key, (str,), evaluation_context)

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        return self._resolve(flag_key, (int,), evaluation_context)

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        return self._resolve(flag_key, (int, float), evaluation_context)

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[Any] | Mapping[str, Any],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Any]:
        return self._resolve(flag_key, (dict, list), evaluation_context)

    def _resolve(
        self, key: str, types: tuple[type, ...], context: EvaluationContext | None
    ) -> FlagResolutionDetails[Any]:
        entity = (context.targeting_key if context is not None else None) or self._default_entity
        if not entity:
            raise TargetingKeyMissingError(f"{key} needs a targeting key, which names the entity.")
        try:
            served = self._source.get_value(key, entity)
        except errors.NotFound as error:
            raise FlagNotFoundError(str(error)) from error
        except errors.AtollError as error:
            raise GeneralError(str(error)) from error
        value: Any = served.value
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise TypeMismatchError(f"{key} is {value!r:.60}.")
        number: Any = value
        value = float(number) if float in types else value
        reason = Reason.SPLIT if served.arm == "candidate" else Reason.STATIC
        return FlagResolutionDetails(
            value, reason=reason, variant=served.arm, flag_metadata={"version": served.version}
        )
