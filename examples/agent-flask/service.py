"""A service in Flask that lets the agent check its requests' tokens."""
import http.client
import json
from urllib.parse import urlencode

from flask import Flask, g, request

app = Flask(__name__)

# The scopes that a limited token needs, by endpoint. At others, no limited token is good.
SCOPES = {"reports": "reports:read"}


@app.before_request
def check_token():
    scopes = SCOPES.get(request.endpoint)
    path = f"/scopes/{scopes}/verify" if scopes else "/verify"
    authorization = request.headers.get("Authorization", "")
    status, headers, body = ask_agent("GET", path, headers={"Authorization": authorization})
    # Not a good token, one without the scopes, or a header that cannot be read or is too long.
    if status in (400, 401, 403, 431):
        names = ("WWW-Authenticate", "Content-Type")
        return body, status, {name: headers[name] for name in names if name in headers}
    # Nothing is known about the token. A 401 would sign the user out.
    if status != 200:
        return unavailable(headers)
    g.user = headers["X-Auth-User"]
    # "".split(",") would be one role, the empty text.
    g.roles = [role for role in headers["X-Auth-Roles"].split(",") if role]


def ask_agent(method, path, **sent):
    connection = http.client.HTTPConnection("127.0.0.1:4181", timeout=5)
    try:
        connection.request(method, path, **sent)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    except (OSError, http.client.HTTPException):
        return 503, {}, b""
    finally:
        connection.close()


def unavailable(headers):
    return {"code": "unavailable"}, 503, {"Retry-After": headers.get("Retry-After", "1")}


@app.get("/orders")
def orders():
    return f"user {g.user}, roles {g.roles}\n"


@app.get("/reports/<name>")
def reports(name):
    return f"{name} of user {g.user}\n"


@app.get("/admin")
def admin():
    # The agent demands nothing of a login, but says what is known of it.
    token = request.headers["Authorization"].split()[-1]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    status, headers, body = ask_agent("POST", "/introspect", body=urlencode({"token": token}), headers=form)
    if status != 200:
        return unavailable(headers)
    if json.loads(body).get("acr") not in ("mfa", "phr"):
        code = "insufficient_user_authentication"
        return {"code": code}, 401, {"WWW-Authenticate": f'Bearer error="{code}", acr_values="mfa"'}
    return f"administrator {g.user}\n"
