{{/* `latchkey` for a release of that name, else RELEASE-latchkey. 40 leave room for a Job's suffixes. */}}
{{- define "latchkey.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains "latchkey" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-latchkey" .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* The name is fixed: it becomes `job="latchkey"`, which the alerts and the dashboard select. */}}
{{- define "latchkey.selectorLabels" -}}
app.kubernetes.io/name: latchkey
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "latchkey.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "latchkey.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "latchkey.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (include "latchkey.fullname" .) }}
{{- end -}}

{{/* A hook runs before the release's ServiceAccount exists, so it has its own. */}}
{{- define "latchkey.migrationAccountName" -}}
{{- if and (eq .Values.migration.mode "hook") .Values.serviceAccount.create -}}
{{ include "latchkey.fullname" . }}-migrate
{{- else -}}
{{ include "latchkey.serviceAccountName" . }}
{{- end -}}
{{- end -}}

{{- define "latchkey.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{/* Of every pod. */}}
{{- define "latchkey.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- range $field := list "imagePullSecrets" "priorityClassName" "nodeSelector" "tolerations" "affinity" }}
{{- with index $.Values $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Of every container. Configuration errors go to stderr. */}}
{{- define "latchkey.container" -}}
image: {{ include "latchkey.image" . }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- end -}}

{{/* @param .folder of the Secret with the database's URL, .service whether it needs Redis and the keys too */}}
{{- define "latchkey.env" -}}
- name: DATABASE_URL_FILE
  value: /run/secrets/{{ .folder }}/database-url
{{- if .Values.database.ca }}
- name: DATABASE_CA_FILE
  value: /run/secrets/{{ .folder }}/database-ca
{{- end }}
{{- if .service }}
- name: REDIS_URL_FILE
  value: /run/secrets/latchkey/redis-url
{{- if .Values.redis.ca }}
- name: REDIS_CA_FILE
  value: /run/secrets/latchkey/redis-ca
{{- end }}
{{- if .Values.redis.sentinel.password }}
- name: REDIS_SENTINEL_PASSWORD_FILE
  value: /run/secrets/latchkey/redis-sentinel-password
{{- end }}
- name: REFRESH_TOKEN_SECRET_FILE
  value: /run/secrets/latchkey/refresh-token-secret
- name: SIGNING_KEYS_DIR
  value: /run/secrets/latchkey-signing-keys
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* No subPath: only whole volumes follow a change of their Secret. */}}
{{- define "latchkey.mounts" -}}
{{- $folders := dict "secrets" "latchkey" "owner" "latchkey-owner" "signing-keys" "latchkey-signing-keys" }}
{{- range $name := . }}
- name: {{ $name }}
  mountPath: /run/secrets/{{ get $folders $name }}
  readOnly: true
{{- end }}
{{- end -}}

{{/* @param .name of the volume, .secret */}}
{{- define "latchkey.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 288 # 0440
{{- end -}}

{{/* Numbers in JSON: Go would print a large one as 2.592e+06. */}}
{{- define "latchkey.config" -}}
{{- $config := deepCopy .Values.config }}
{{- with .Values.redis }}
{{- if ne .mode "single" }}
{{- $_ := merge $config (dict "REDIS_MODE" .mode "REDIS_NODES" (join "," .nodes)) }}
{{- end }}
{{- if eq .mode "sentinel" }}
{{- $_ := set $config "REDIS_SENTINEL_NAME" .sentinel.name }}
{{- with .sentinel.username }}
{{- $_ := set $config "REDIS_SENTINEL_USERNAME" . }}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $value := $config }}
{{ $name }}: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end -}}

{{/* The host of ISSUER. */}}
{{- define "latchkey.host" -}}
{{ (urlParse .Values.config.ISSUER).hostname }}
{{- end -}}

{{/* The paths that clients reach, as deploy/nginx opens them. A prefix takes whole segments: /api/users is not open. */}}
{{- define "latchkey.publicPaths" -}}
Prefix: [/api/auth, /api/user]
Exact:
  - /.well-known/jwks.json
  - /.well-known/oauth-authorization-server
  - /.well-known/openid-configuration
{{- end -}}
