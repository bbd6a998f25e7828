# What differs from deploy/nginx/latchkey/forward-auth.conf: the agent checks the tokens.
/# Instead, if the application/,/# proxy_pass/d
s|$latchkey/api/auth/|http://127.0.0.1:4181/|
