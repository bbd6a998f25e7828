-- CreateTable
CREATE TABLE "installation_marks" (
    "mark" TEXT COLLATE "C" NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "installation_marks_pkey" PRIMARY KEY ("mark")
);

-- CreateIndex
CREATE INDEX "installation_marks_at_idx" ON "installation_marks"("at");
