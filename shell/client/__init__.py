"""The process that uses the models: ``python -m shell.client --spec client.json``.

It starts while servers boot, because importing Data Designer and reading a config take seconds. It writes
`prepared.json`, waits for the line ``go`` on its standard input, works, and writes `claim.json` or its error file
(`core.client_spec` has all of them). It ends when whoever started it is gone.

Exit codes: 0 with a claim that is true and complete, 65 the data or the config are wrong, 70 a bug, 75 try again (also
when standard input ends before ``go``), 78 refused before the start.
"""
