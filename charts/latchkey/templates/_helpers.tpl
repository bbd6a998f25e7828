{{/* `latchkey` for a release of that name, else RELEASE-latchkey. Not cut: two releases could share the rest. */}}
{{- define "latchkey.fullname" -}}
{{- $short := .Values.nameOverride | default "latchkey" }}
{{- $name := contains $short .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $short) }}
{{- .Values.fullnameOverride | default ($name | replace "." "-") -}}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "latchkey.check" -}}
{{- $name := include "latchkey.fullname" . }}
{{- /* A Service's name begins with a letter. 40 leave room for the suffixes of Jobs. */}}
{{- if not (regexMatch "^[a-z][-a-z0-9]{0,39}$" $name) }}
{{- fail (printf "no Service can be %s: set fullnameOverride to at most 40 letters, digits and hyphens, a letter first" $name) }}
{{- end }}
{{- range $variable, $bounds := .Files.Get "files/config-bounds.json" | fromJson }}
{{- $value := get $.Values.config $variable }}
{{- if and (kindIs "string" $value) (ne $value "") (or (lt (int64 $value) (int64 $bounds.min)) (gt (int64 $value) (int64 $bounds.max))) }}
{{- fail (printf "set config.%s to a whole number from %d to %d: it is %s" $variable (int64 $bounds.min) (int64 $bounds.max) $value) }}
{{- end }}
{{- end }}
{{- $shutdown := .Values.config.SHUTDOWN_TIMEOUT | default 25 | int }}
{{- $least := add 5 $shutdown 1 | int }}
{{- if le (int .Values.terminationGracePeriodSeconds) $least }}
{{- fail (printf "set terminationGracePeriodSeconds above %d: preStop (5 s), config.SHUTDOWN_TIMEOUT (%d s) and a second" $least $shutdown) }}
{{- end }}
{{- $drain := hasKey .Values.config "DRAIN_DELAY" | ternary (toString .Values.config.DRAIN_DELAY) "5" | int }}
{{- if ge $drain $shutdown }}
{{- fail (printf "set config.DRAIN_DELAY (%d s) below config.SHUTDOWN_TIMEOUT (%d s): requests that begin in the drain need time to end" $drain $shutdown) }}
{{- end }}
{{- with .Values.autoscaling }}
{{- if and .enabled (not .targetCPUUtilizationPercentage) (not .metrics) }}
{{- fail "set autoscaling.targetCPUUtilizationPercentage or autoscaling.metrics: without a metric, Kubernetes chooses one" }}
{{- end }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
{{- fail (printf "set autoscaling.maxReplicas to at least autoscaling.minReplicas (%d)" (int .minReplicas)) }}
{{- end }}
{{- end }}
{{- /* Of the chart and the image. `config` is a ConfigMap, whose variables `env` would overrule. */}}
{{- $own := list "NODE_ENV" "PORT" "OPS_PORT" "DATA_DIR" "DATABASE_URL" "DATABASE_CA" "REDIS_URL" "REDIS_CA"
  "REDIS_MODE" "REDIS_NODES" "REDIS_SENTINEL_NAME" "REDIS_SENTINEL_USERNAME" "REDIS_SENTINEL_PASSWORD" "SIGNING_KEYS_DIR"
  "REFRESH_TOKEN_SECRET" "FACTOR_KEYS" "SHUTDOWN_TIMEOUT" }}
{{- range .Values.extraEnv }}
{{- if has .name (list "SEED_FILE" "SEED_FILE_FILE") }}
{{- fail (printf "remove %s from extraEnv: it is for development, and production does not start with it" .name) }}
{{- end }}
{{- $variable := trimSuffix "_FILE" .name }}
{{- if or (has $variable $own) (hasKey $.Values.config $variable) }}
{{- fail (printf "remove %s from extraEnv: %s is set by the chart, or belongs in `config`" .name $variable) }}
{{- end }}
{{- end }}
{{- $namespaces := list }}
{{- range .Values.agent.services }}
{{- if has .namespace $namespaces }}
{{- fail (printf "list the namespace %s once in agent.services: each has one ConfigMap for agents" .namespace) }}
{{- end }}
{{- $namespaces = append $namespaces .namespace }}
{{- end }}
{{- $volumes := list }}
{{- range .Values.extraVolumes }}
{{- if has .name (list "secrets" "owner" "signing-keys") }}
{{- fail (printf "give the volume %s in extraVolumes another name: the chart has one of that name" .name) }}
{{- end }}
{{- $volumes = append $volumes .name }}
{{- end }}
{{- range .Values.extraVolumeMounts }}
{{- if not (has .name $volumes) }}
{{- fail (printf "add the volume %s to extraVolumes, or remove it from extraVolumeMounts" .name) }}
{{- end }}
{{- if clean .mountPath | trimPrefix "/var" | hasPrefix "/run/secrets/latchkey" }}
{{- fail (printf "mount %s of extraVolumeMounts elsewhere than at %s: the chart mounts its Secrets there" .name .mountPath) }}
{{- end }}
{{- end }}
{{- $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels }}
{{- range $pod := list "migration" "purge" "drill" "admin" "test" }}
{{- $_ := set $labels (printf "%s.podLabels" $pod) (index $.Values $pod).podLabels }}
{{- end }}
{{- range $field, $values := $labels }}
{{- range $name := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" }}
{{- if hasKey ($values | default dict) $name }}
{{- fail (printf "remove %s from %s: selectors use it" $name $field) }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.metrics.serviceMonitor }}
{{- if and .scrapeTimeout (gt (include "latchkey.milliseconds" .scrapeTimeout | int) (include "latchkey.milliseconds" .interval | int)) }}
{{- fail (printf "set metrics.serviceMonitor.scrapeTimeout (%s) to at most metrics.serviceMonitor.interval (%s)" .scrapeTimeout .interval) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "latchkey.milliseconds" -}}
{{- $unit := dict "ms" 1 "s" 1000 "m" 60000 }}
{{- mul (regexFind "^[0-9]+" .) (get $unit (regexFind "[a-z]+$" .)) -}}
{{- end -}}

{{/* The entries of some maps, of which later ones win. */}}
{{- define "latchkey.merged" -}}
{{- $all := dict }}
{{- range . }}
{{- range $key, $value := . }}
{{- $_ := set $all $key $value }}
{{- end }}
{{- end }}
{{- with $all }}
{{- toYaml . }}
{{- end }}
{{- end -}}

{{/* The name is fixed: it becomes `job="latchkey"`, which the alerts and the dashboard select. */}}
{{- define "latchkey.selectorLabels" -}}
app.kubernetes.io/name: latchkey
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "latchkey.labels" -}}
{{- $chart := printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- $release := dict "helm.sh/chart" $chart "app.kubernetes.io/managed-by" .Release.Service "app.kubernetes.io/version" .Chart.AppVersion }}
{{- include "latchkey.merged" (list $release .Values.commonLabels (include "latchkey.selectorLabels" . | fromYaml)) -}}
{{- end -}}

{{/* Labels and annotations of a pod. @param .root, .component, .own: the chart's annotations, .values: of the component */}}
{{- define "latchkey.podMetadata" -}}
{{- $values := .root.Values }}
{{- $selected := include "latchkey.selectorLabels" .root | fromYaml }}
{{- $_ := set $selected "app.kubernetes.io/component" .component -}}
labels:
  {{- include "latchkey.merged" (list $values.commonLabels $values.podLabels .values.podLabels $selected) | nindent 2 }}
{{- with include "latchkey.merged" (list $values.podAnnotations .own .values.podAnnotations) }}
annotations:
  {{- . | nindent 2 }}
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
{{- $registry := (.Values.global).imageRegistry | default .Values.image.registry -}}
{{- with .Values.image -}}
{{ with $registry }}{{ . }}/{{ end }}{{ required $todo .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{/* Of every pod. */}}
{{- define "latchkey.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- $pullSecrets := .Values.imagePullSecrets }}
{{- range (.Values.global).imagePullSecrets }}
{{- $pullSecrets = append $pullSecrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- with $pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $field := list "priorityClassName" "nodeSelector" "tolerations" "affinity" "hostAliases" "dnsPolicy" "dnsConfig" }}
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

{{/* Of every container but that of `helm test`. The last one wins. @param .root, .config: whether it reads the ConfigMap */}}
{{- define "latchkey.envFrom" -}}
{{- if or .config .root.Values.extraEnvFrom }}
envFrom:
  {{- with .root.Values.extraEnvFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if .config }}
  - configMapRef:
      name: {{ include "latchkey.configName" .root | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* @param .folder of the Secret with the database's URL, .redis whether it needs Redis too, .service Redis and the keys */}}
{{- define "latchkey.env" -}}
- name: DATABASE_URL_FILE
  value: /run/secrets/{{ .folder }}/database-url
{{- if .Values.database.ca }}
- name: DATABASE_CA_FILE
  value: /run/secrets/{{ .folder }}/database-ca
{{- end }}
{{- if or .service .redis }}
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
{{- end }}
{{- if .service }}
- name: REFRESH_TOKEN_SECRET_FILE
  value: /run/secrets/latchkey/refresh-token-secret
{{- if .Values.secondFactor.enabled }}
- name: FACTOR_KEYS_FILE
  value: /run/secrets/latchkey/factor-keys
{{- end }}
- name: SIGNING_KEYS_DIR
  value: /run/secrets/latchkey-signing-keys
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* No subPath: only whole volumes follow a change of their Secret. @param .root, .volumes: names */}}
{{- define "latchkey.mounts" -}}
{{- $folders := dict "secrets" "latchkey" "owner" "latchkey-owner" "signing-keys" "latchkey-signing-keys" }}
{{- range $name := .volumes }}
- name: {{ $name }}
  mountPath: /run/secrets/{{ get $folders $name }}
  readOnly: true
{{- end }}
{{- with .root.Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* @param .name of the volume, .secret */}}
{{- define "latchkey.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret | quote }}
    defaultMode: 288 # 0440
{{- end -}}

{{- define "latchkey.extraVolumes" -}}
{{- with .Values.extraVolumes }}
{{- toYaml . }}
{{- end }}
{{- end -}}

{{/* Pods above the wanted number during a rollout. @param .root, .replicas */}}
{{- define "latchkey.surge" -}}
{{- $surge := .root.Values.strategy.rollingUpdate.maxSurge }}
{{- if kindIs "string" $surge -}}
{{ div (add (mul .replicas (trimSuffix "%" $surge)) 99) 100 }}
{{- else -}}
{{ int $surge }}
{{- end -}}
{{- end -}}

{{- define "latchkey.configName" -}}
{{ include "latchkey.fullname" . }}-{{ include "latchkey.config" . | sha256sum | trunc 10 }}
{{- end -}}

{{/* Numbers in JSON: Go would print a large one as 2.592e+06. */}}
{{- define "latchkey.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $_ := set $config "ISSUER" (include "latchkey.issuer" .) }}
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

{{- define "latchkey.issuer" -}}
{{ required "set config.ISSUER to the public address, such as https://auth.example.com" .Values.config.ISSUER }}
{{- end -}}

{{/* The host of ISSUER. */}}
{{- define "latchkey.host" -}}
{{ (urlParse (include "latchkey.issuer" .)).hostname }}
{{- end -}}

{{/* The paths that clients reach, as deploy/nginx opens them. A prefix takes whole segments: /api/users is not open. */}}
{{- define "latchkey.publicPaths" -}}
Prefix: [/api/auth, /api/user]
Exact:
  - /.well-known/jwks.json
  - /.well-known/oauth-authorization-server
  - /.well-known/openid-configuration
{{- end -}}
