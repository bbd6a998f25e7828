# Writes the exports in this folder with Debian's python3-django, python3-passlib, python3-bcrypt, python3-argon2 and
# python3-cryptography: `/usr/bin/python3 make.py`. README.md says which of them a tool has written itself.
import base64
import datetime
import hashlib
import hmac
import json

import argon2
import bcrypt
import django
import passlib.hash as passlib
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from django.conf import settings
from django.core.management import call_command

PASSWORD = "correct horse battery staple"


def b64(data):
    return base64.b64encode(data).decode()


def salt(name, size=16):
    return hashlib.sha256(name.encode()).digest()[:size]


def write(name, text):
    with open(name, "w") as file:
        file.write(text)


# --- Django: dumpdata itself, over SQLite.
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"],
    USE_TZ=True,
)
django.setup()
call_command("migrate", verbosity=0)
from django.contrib.auth.models import Group, User  # noqa: E402

DAY = datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, datetime.timezone.utc)


def django_user(username, email, password=PASSWORD, **more):
    return User.objects.create_user(username, email, password, date_joined=DAY, **more)


editors = Group.objects.create(name="editors")
ada = django_user("ada", "Ada@example.com", first_name="Ada", last_name="Lovelace")
ada.groups.set([editors, Group.objects.create(name="Content team")])
django_user("bob@example.com", "bob@example.com")
django_user("admin", "admin@example.com", is_superuser=True, is_staff=True)
django_user("carol", "carol@example.com", None)
django_user("dave", "dave@example.com", is_active=False)
django_user("erin", "")
call_command("dumpdata", "auth.user", use_natural_foreign_keys=True, output="django.json")
call_command("dumpdata", "auth.user", format="jsonl", output="django-numbered-groups.jsonl")


# --- Keycloak
def kc_password(algorithm, iterations, key, salted, **parameters):
    return {
        "id": "5a1e0a9c-0000-4000-8000-%012x" % iterations,
        "type": "password",
        "createdDate": 1700000000000,
        "secretData": json.dumps({"value": b64(key), "salt": b64(salted), "additionalParameters": {}}),
        "credentialData": json.dumps(
            {"hashIterations": iterations, "algorithm": algorithm, "additionalParameters": parameters}
        ),
    }


def kc_argon2(name):
    key = argon2.low_level.hash_secret_raw(
        PASSWORD.encode(), salt(name), 5, 7168, 1, 32, argon2.low_level.Type.ID
    )
    parameters = {"hashLength": ["32"], "memory": ["7168"], "type": ["id"], "version": ["1.3"], "parallelism": ["1"]}
    return kc_password("argon2", 5, key, salt(name), **parameters)


def kc_pbkdf2(name, digest, iterations):
    key = hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), salt(name), iterations)
    return kc_password("pbkdf2-" + digest, iterations, key, salt(name))


def kc_otp(value, digits=6, **more):
    return {
        "id": "0b4f3f7e-0000-4000-8000-%012x" % len(value),
        "type": "otp",
        "userLabel": "phone",
        "createdDate": 1700000000000,
        "secretData": json.dumps({"value": value}),
        "credentialData": json.dumps(
            {"subType": "totp", "digits": digits, "counter": 0, "period": 30, "algorithm": "HmacSHA1", **more}
        ),
    }


def kc_user(number, username, email, credentials, **more):
    return {
        "id": "2a117809-8285-4718-a131-%012x" % number,
        "username": username,
        "firstName": username.capitalize(),
        "lastName": "Example",
        **({"email": email} if email else {}),
        "emailVerified": False,
        "createdTimestamp": 1600000000000 + number,
        "enabled": True,
        "totp": any(each["type"] == "otp" for each in credentials),
        "credentials": credentials,
        "disableableCredentialTypes": [],
        "requiredActions": [],
        "realmRoles": ["default-roles-shop"],
        "notBefore": 0,
        "groups": [],
        **more,
    }


webauthn = {
    "id": "7c4b99d0-0000-4000-8000-000000000001",
    "type": "webauthn",
    "createdDate": 1700000000000,
    "secretData": "{}",
    "credentialData": json.dumps({"aaguid": "0" * 8, "credentialId": "AAAA", "counter": 0}),
}
write(
    "keycloak.json",
    json.dumps(
        {
            "id": "8b4f8a62-cf29-4ac5-b1a3-0b0f1a4f6d11",
            "realm": "shop",
            "enabled": True,
            "users": [
                kc_user(
                    1, "ada", "ada@example.com", [kc_argon2("ada"), kc_otp("2ZDMSkTFLBJgCVc0Zg7O")],
                    emailVerified=True, realmRoles=["default-roles-shop", "offline_access", "staff", "Shop Owner"],
                ),
                kc_user(2, "bob@example.com", "bob@example.com", [kc_pbkdf2("bob", "sha512", 210000)]),
                kc_user(
                    3, "carol", "carol@example.com",
                    [kc_pbkdf2("carol", "sha256", 27500), kc_otp("JBSWY3DPEHPK3PXPJBSWY3DP", secretEncoding="BASE32")],
                ),
                kc_user(4, "dave", "dave@example.com", [kc_argon2("dave"), kc_otp("ABCDEFGHIJKLMNOPQRST", digits=8)]),
                kc_user(5, "erin", "erin@example.com", [kc_argon2("erin"), webauthn]),
                kc_user(6, "frank", "frank@example.com", [kc_argon2("frank")], enabled=False),
                kc_user(7, "grace", None, [kc_argon2("grace")]),
                kc_user(
                    8, "heidi", "heidi@example.com", [],
                    federatedIdentities=[{"identityProvider": "google", "userId": "1", "userName": "heidi"}],
                ),
                kc_user(9, "service-account-shop", None, [], serviceAccountClientId="shop"),
            ],
        },
        indent=2,
        separators=(",", " : "),
    )
    + "\n",
)


# --- Auth0
def bcrypt_of(name, ident, cost=10):
    return passlib.bcrypt.using(rounds=cost, ident=ident, salt=bcrypt64(name)).hash(PASSWORD)


def bcrypt64(name):
    # 22 characters, of which the last has 2 bits.
    return hashlib.sha256(name.encode()).hexdigest()[:21] + "O"


def auth0_user(user_id, email, **more):
    provider, _, rest = user_id.partition("|")
    name = email.split("@")[0]
    connection = "Username-Password-Authentication" if provider == "auth0" else provider
    return {
        "user_id": user_id,
        "email": email,
        "email_verified": True,
        "name": email,
        "nickname": name,
        "created_at": "2021-03-05T16:34:16.775Z",
        "identities": [
            {"user_id": rest, "provider": provider, "connection": connection, "isSocial": provider != "auth0"}
        ],
        **more,
    }


def auth0_hash(oid, email, **more):
    return {
        "_id": {"$oid": oid},
        "email_verified": False,
        "email": email,
        "passwordHash": bcrypt_of(email, "2b"),
        "password_set_date": {"$date": "2021-03-05T16:34:16.775Z"},
        "tenant": "example",
        "connection": "Username-Password-Authentication",
        "_tmp_is_unique": True,
        **more,
    }


def lines(objects):
    return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in objects)


OID = "5dea9f9c82dd7c0e76e4ec9%d"
write(
    "auth0.ndjson",
    lines(
        [
            auth0_user("auth0|" + OID % 1, "ada@example.com", username="ada", given_name="Ada", family_name="Lovelace"),
            auth0_user("auth0|euclid", "bob@example.com", multifactor=[]),
            auth0_user(
                "google-oauth2|103547991597142817347", "carol@example.com",
                identities=[
                    {"user_id": "103547991597142817347", "provider": "google-oauth2", "connection": "google-oauth2", "isSocial": True},
                    {"user_id": OID % 3, "provider": "auth0", "connection": "Username-Password-Authentication", "isSocial": False},
                ],
            ),
            auth0_user("google-oauth2|103547991597142817348", "dave@example.com"),
            auth0_user("auth0|" + OID % 5, "erin@example.com", multifactor=["guardian"]),
            auth0_user("auth0|" + OID % 6, "frank@example.com", blocked=True),
            auth0_user("auth0|" + OID % 7, "grace@example.com", email_verified=False),
        ]
    ),
)
write(
    "auth0-hashes.ndjson",
    lines(
        [
            auth0_hash(OID % 1, "ada@example.com"),
            auth0_hash(OID % 2, "bob@example.com", alt_id="euclid"),
            auth0_hash(OID % 3, "carol@example.com"),
            auth0_hash(OID % 5, "erin@example.com"),
            auth0_hash(OID % 6, "frank@example.com"),
        ]
    ),
)

# --- Firebase: scrypt as github.com/firebase/scrypt describes it. Its README's sample is the first user.
SIGNER_KEY = "jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA=="
SEPARATOR = "Bw=="


def firebase_hash(password, salted):
    key = hashlib.scrypt(
        password.encode(), salt=salted + base64.b64decode(SEPARATOR), n=2**14, r=8, p=1, dklen=32, maxmem=2**26
    )
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return b64(encryptor.update(base64.b64decode(SIGNER_KEY)))


def firebase_user(uid, email, password=PASSWORD, **more):
    salted = salt(uid, 10)
    secret = {"passwordHash": firebase_hash(password, salted), "salt": b64(salted)} if password else {}
    return {
        "localId": uid,
        **({"email": email} if email else {}),
        "emailVerified": False,
        **secret,
        "lastSignedInAt": "1600000000000",
        "createdAt": "1508893925000",
        "providerUserInfo": [],
        **more,
    }


sample = "lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=="
assert firebase_hash("user1password", base64.b64decode("42xEC+ixf3L2lw==")) == sample
users = [
    firebase_user(
        "kYi4EvWQlQTKSfnJ3dRSP6IH3ed2", "user1@example.com", "user1password", displayName="Test User 1",
        passwordHash=sample, salt="42xEC+ixf3L2lw==",
    ),
    firebase_user("XDfXjqUr2wbjLpAJpDBz1aFCxnk1", "ada@example.com", emailVerified=True),
    firebase_user("XDfXjqUr2wbjLpAJpDBz1aFCxnk2", "bob@example.com", disabled=True),
    firebase_user("XDfXjqUr2wbjLpAJpDBz1aFCxnk3", None, None, phoneNumber="+15555550100"),
    firebase_user(
        "XDfXjqUr2wbjLpAJpDBz1aFCxnk4", "carol@example.com", None, emailVerified=True,
        providerUserInfo=[{"providerId": "google.com", "rawId": "1", "email": "carol@example.com"}],
    ),
]
write("firebase.json", '{"users": [\n' + ",\n".join(json.dumps(each, indent=2) for each in users) + "]}")
write(
    "firebase-parameters.txt",
    "hash_config {\n  algorithm: SCRYPT,\n  base64_signer_key: %s,\n  base64_salt_separator: %s,\n"
    "  rounds: 8,\n  mem_cost: 14,\n}\n" % (SIGNER_KEY, SEPARATOR),
)


# --- WordPress
def wp_bcrypt(password):
    digest = base64.b64encode(hmac.digest(b"wp-sha384", password.encode(), "sha384")).decode()
    return "$wp" + passlib.bcrypt.using(rounds=10, ident="2y", salt=bcrypt64("wp")).hash(digest)


def wp_user(number, login, email, password, roles="subscriber", **more):
    return {
        "ID": number,
        "user_login": login,
        "user_email": email,
        "display_name": login,
        "user_registered": "2019-05-06 07:08:09",
        "roles": roles,
        "user_pass": password,
        **more,
    }


users = [
    wp_user(1, "admin", "admin@example.com", wp_bcrypt(PASSWORD), "administrator", user_registered="0000-00-00 00:00:00"),
    wp_user(2, "ada", "ada@example.com", passlib.phpass.using(rounds=13, salt="abcdefgh").hash(PASSWORD), "editor,shop_manager"),
    wp_user(3, "Bob Baker", "bob@example.com", wp_bcrypt(PASSWORD), "customer"),
    wp_user(4, "carol", "carol@example.com", hashlib.md5(PASSWORD.encode()).hexdigest()),
    wp_user(5, "dave", "", wp_bcrypt(PASSWORD), ""),
    wp_user(6, "erin", "erin@example.com", wp_bcrypt(PASSWORD), display_name="Zoë / Erin", spam="1"),
]
write("wordpress.json", json.dumps(users, separators=(",", ":")).replace("/", "\\/"))


# --- Supabase
def supabase_user(number, email, password=PASSWORD, factors=None, **more):
    uid = "f1d0c5b4-7a52-4a5c-9a6e-%012x" % number
    return {
        "instance_id": "00000000-0000-0000-0000-000000000000",
        "id": uid,
        "aud": "authenticated",
        "role": "authenticated",
        "email": email,
        "encrypted_password": bcrypt_of(uid, "2a") if password else password,
        "email_confirmed_at": "2024-01-02T03:04:05.678901+00:00",
        "raw_app_meta_data": {"provider": "email", "providers": ["email"]},
        "raw_user_meta_data": {"full_name": "User %d" % number},
        "is_super_admin": None,
        "created_at": "2024-01-02T03:04:05.678901+00:00",
        "phone": None,
        "banned_until": None,
        "is_sso_user": False,
        "deleted_at": None,
        "is_anonymous": False,
        "mfa_factors": factors,
    }


def factor(kind, status="verified", secret=None):
    return {"friendly_name": "phone", "factor_type": kind, "status": status, "secret": secret}


users = [
    supabase_user(1, "ada@example.com", factors=[factor("totp", secret="JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")]),
    supabase_user(2, "bob@example.com", factors=[factor("totp", "unverified", "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")]),
    supabase_user(3, "carol@example.com", factors=[factor("webauthn")]),
    {**supabase_user(4, "dave@example.com"), "banned_until": "2099-01-01T00:00:00+00:00", "is_super_admin": True},
    {**supabase_user(5, "erin@example.com"), "email_confirmed_at": None, "banned_until": "2020-01-01T00:00:00+00:00"},
    {**supabase_user(6, None, None), "is_anonymous": True, "raw_user_meta_data": {}},
    {**supabase_user(7, "frank@example.com"), "deleted_at": "2024-02-01T00:00:00+00:00"},
    {**supabase_user(8, "grace@example.com", ""), "is_sso_user": True},
]
write("supabase.jsonl", lines(users))
