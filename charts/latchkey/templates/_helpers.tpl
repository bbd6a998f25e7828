{{/* `latchkey` for a release of that name, else RELEASE-latchkey. Not cut: two releases could share the rest. */}}
{{- define "latchkey.fullname" -}}
{{- $name := contains "latchkey" .Release.Name | ternary .Release.Name (printf "%s-latchkey" .Release.Name) }}
{{- .Values.fullnameOverride | default ($name | replace "." "-") -}}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "latchkey.check" -}}
{{- $name := include "latchkey.fullname" . }}
{{- /* A Service's name begins with a letter. 40 leave room for the suffixes of Jobs. */}}
{{- if not (regexMatch "^[a-z][-a-z0-9]{0,39}$" $name) }}
{{- fail (printf "no Service can be %s: set fullnameOverride to at most 40 letters, digits and hyphens, a letter first" $name) }}
{{- end }}
{{- $shutdown := .Values.config.SHUTDOWN_TIMEOUT | default 25 | int }}
{{- $least := add 5 $shutdown 1 | int }}
{{- if le (int .Values.terminationGracePeriodSeconds) $least }}
{{- fail (printf "set terminationGracePeriodSeconds above %d: preStop (5 s), config.SHUTDOWN_TIMEOUT (%d s) and a second" $least $shutdown) }}
{{- end }}
{{- with .Values.autoscaling }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
{{- fail (printf "set autoscaling.maxReplicas to at least autoscaling.minReplicas (%d)" (int .minReplicas)) }}
{{- end }}
{{- end }}
{{- /* Of the chart and the image. `config` is a ConfigMap, whose variables `env` would overrule. */}}
{{- $own := list "NODE_ENV" "HOST" "PORT" "OPS_HOST" "OPS_PORT" "DATA_DIR" "DATABASE_URL" "DATABASE_CA" "REDIS_URL" "REDIS_CA"
  "REDIS_MODE" "REDIS_NODES" "REDIS_SENTINEL_NAME" "REDIS_SENTINEL_USERNAME" "REDIS_SENTINEL_PASSWORD" "SIGNING_KEYS_DIR"
  "REFRESH_TOKEN_SECRET" "SHUTDOWN_TIMEOUT" }}
{{- range .Values.extraEnv }}
{{- $variable := trimSuffix "_FILE" .name }}
{{- if or (has $variable $own) (hasKey $.Values.config $variable) }}
{{- fail (printf "remove %s from extraEnv: %s is set by the chart, or belongs in `config`" .name $variable) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The name is fixed: it becomes `job="latchkey"`, which the alerts and the dashboard select. */}}
{{- define "latchkey.selectorLabels" -}}
app.kubernetes.io/name: latchkey
app.kubernetes.io/instance: {{ .Release.Name | quote }}
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
{{- $todo := "set image.repository to the image in your registry, such as registry.example.com/latchkey" -}}
{{- with .Values.image -}}
{{ required $todo .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
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
{{- with .Values.extraInitContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Of every container. Configuration errors go to stderr. */}}
{{- define "latchkey.container" -}}
image: {{ include "latchkey.image" . | quote }}
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
    secretName: {{ .secret | quote }}
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
