"""The damage matrix: tables, what may happen to their files, and what each verb must then answer."""
