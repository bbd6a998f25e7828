-- One row in a database that a seed has filled: production does not serve it. 1.0.0 does not know the table.
CREATE TABLE "seed_mark" (
    "id" INTEGER NOT NULL DEFAULT 1,
    "at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "seed_mark_pkey" PRIMARY KEY ("id")
);
