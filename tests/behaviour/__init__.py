"""Stories through the doors that users have: a study goes in; facts, tables and an exit code come out."""
