"""What the settings of the pool mean for admission."""

from bailiwick.engines.config import PoolConfig
from bailiwick.fleet.admission import Limits


def first_limits(config: PoolConfig) -> Limits:
    """As long as there is no engine. Each one that comes brings its slots."""
    return Limits(
        slots=0,
        long_max=0,
        interactive_s=config.interactive_s,
        queue_length_max=config.queue_length_max,
        queue_length_per_principal_max=config.queue_length_per_user_max,
        queue_wait_s=config.queue_wait_s,
        queue_length_per_tenant_max=config.queue_length_per_tenant_max,
        running_per_tenant_max=config.running_per_tenant_max,
    )
