"""Ways to reach models: one file per protocol, all behind `core.ports.Provider`, and what the models cost."""
