"""Runs trials: their order, their lab, their endings. Money and providers stay behind the gateway."""
