"""The form of answers: lines, JSON, and tables for a person at a terminal."""
