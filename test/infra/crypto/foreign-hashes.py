# Prints hashes of the password on standard input, made by the libraries of other systems: a JSON object, by name.
# With an argument: those of that name only, from Django 4 or later.
import json
import sys

password = sys.stdin.buffer.read().decode()


def django():
    from django.conf import settings

    settings.configure(
        PASSWORD_HASHERS=[
            "django.contrib.auth.hashers." + name
            for name in (
                "PBKDF2PasswordHasher",
                "Argon2PasswordHasher",
                "BCryptPasswordHasher",
                "BCryptSHA256PasswordHasher",
                "ScryptPasswordHasher",
            )
            if name != "ScryptPasswordHasher" or sys.argv[1:]
        ]
    )
    from django.contrib.auth.hashers import make_password

    return make_password


if sys.argv[1:] == ["django-scrypt"]:
    hashes = {"django scrypt": django()(password, hasher="scrypt")}
else:
    import base64
    import hmac

    import argon2
    import bcrypt
    import passlib.hash as passlib

    make_password = django()
    raw = password.encode()
    for_wordpress = base64.b64encode(hmac.digest(b"wp-sha384", raw, "sha384"))
    hashes = {
        "argon2-cffi": argon2.PasswordHasher().hash(password),
        "argon2-cffi, argon2i": argon2.PasswordHasher(1, 512, 2, 24, 16, type=argon2.Type.I).hash(password),
        "argon2-cffi, argon2d": argon2.PasswordHasher(3, 256, 1, 64, 8, type=argon2.Type.D).hash(password),
        "bcrypt 2b": bcrypt.hashpw(raw, bcrypt.gensalt()).decode(),
        "bcrypt 2a": bcrypt.hashpw(raw, bcrypt.gensalt(4, b"2a")).decode(),
        "passlib bcrypt 2y": passlib.bcrypt.using(rounds=5, ident="2y").hash(password),
        "passlib argon2": passlib.argon2.using(memory_cost=1024).hash(password),
        "passlib scrypt": passlib.scrypt.using(rounds=10).hash(password),
        "passlib pbkdf2": passlib.pbkdf2_sha1.hash(password),
        "passlib pbkdf2-sha256": passlib.pbkdf2_sha256.hash(password),
        "passlib pbkdf2-sha512": passlib.pbkdf2_sha512.hash(password),
        "django pbkdf2": make_password(password),
        "django argon2": make_password(password, hasher="argon2"),
        "django bcrypt": make_password(password, hasher="bcrypt"),
        "django bcrypt_sha256": make_password(password, hasher="bcrypt_sha256"),
        "bcrypt, as WordPress": "$wp" + bcrypt.hashpw(for_wordpress, bcrypt.gensalt(5)).decode().replace("$2b$", "$2y$"),
        "passlib phpass": passlib.phpass.using(rounds=13).hash(password),
        "passlib phpass H": passlib.phpass.using(rounds=7, ident="H").hash(password),
        "passlib SSHA": passlib.ldap_salted_sha1.hash(password),
        "passlib SSHA256": passlib.ldap_salted_sha256.hash(password),
        "passlib SSHA512": passlib.ldap_salted_sha512.using(salt_size=16).hash(password),
    }
print(json.dumps(hashes))
