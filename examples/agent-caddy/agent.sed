# What differs from deploy/caddy/Caddyfile: the agent checks the tokens, and no path leads to Latchkey.
/# With several replicas/d
/# Caddy's `path` matches/,/^\t\t}/d
/# The ? at the end/d
/# Instead, if the application/,/# rewrite/d
s|latchkey:3000|127.0.0.1:4181|
s|/api/auth{path}verify?|{path}verify?|
s|health_port 9464|health_port 4182|
# Your service.
s|app:8081|127.0.0.1:8081|
