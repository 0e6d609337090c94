"""A person in front of a change, as a pure state machine: stages, receptivity, topics, and the draw of an action."""
