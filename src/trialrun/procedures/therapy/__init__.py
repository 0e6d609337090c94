"""Simulated therapy sessions: a therapist and a client talk, and the client has a hidden inner life that is logged.

`session` runs a trial, `registry` names the methods, `clients` and `therapists` hold one method a file,
`motivation` is the state machine of a person who may change, `material` the characters, topics, prompts and
rubrics as data.
"""
