"""What is wrong with a journal, an event log or a record: damage, form, meaning. Changes nothing."""
