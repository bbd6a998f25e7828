# What differs from deploy/nginx/latchkey/forward-auth.conf: the agent checks the tokens.
/# Instead, if the application/,/# proxy_pass/d
# The agent demands nothing of the login: the service does, by the claims at /introspect.
/# Which requests demand/,/#mfa }/d
s|$latchkey_demand||
s|$latchkey/api/auth/|http://127.0.0.1:4181/|
