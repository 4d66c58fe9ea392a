"""The paper as data: every peer under one contract, every table and figure by one command."""
