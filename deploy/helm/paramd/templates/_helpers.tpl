{{/* The name of everything: short enough for a pod's host name. */}}
{{- define "paramd.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "paramd.selector" -}}
app.kubernetes.io/name: paramd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "paramd.labels" -}}
{{ include "paramd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "paramd.image" -}}
{{- if .Values.image.digest }}
{{- .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The account that pods run as; empty: the namespace's own. */}}
{{- define "paramd.account" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "paramd.name" .) }}
{{- else }}
{{- .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Not empty: a Lease says which pod of the chief's task is the chief. */}}
{{- define "paramd.elects" -}}
{{- if gt (int .Values.election.candidates) 1 }}
{{- if or (ne .Values.controller "plain") .Values.tls.enabled }}
{{- fail "election.candidates: more than 1 needs controller plain, and no tls" }}
{{- end }}
{{- if not (include "paramd.account" .) }}
{{- fail "election.candidates: more than 1 needs serviceAccount.create, or serviceAccount.name" }}
{{- end }}
{{- print "yes" }}
{{- end }}
{{- end }}

{{/* Where pods may run: (dict "root" $ "more" LABELS). What a role asks for itself goes
     before the architecture. */}}
{{- define "paramd.nodeSelector" -}}
{{- $selector := merge (dict) (.more | default dict) }}
{{- with .root.Values.architecture }}
{{- $selector = merge $selector (dict "kubernetes.io/arch" .) }}
{{- end }}
{{- with $selector }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- define "paramd.claim" -}}
{{ .Values.storage.existingClaim | default (include "paramd.name" .) }}
{{- end }}

{{/* Who takes part, for --task_from_hostname. */}}
{{- define "paramd.cluster" -}}
{{- $middle := ternary "-0" "" (eq .Values.controller "jobset") -}}
{{- $chief := printf "%s-chief%s-0.%s:%d" (include "paramd.name" .) $middle (include "paramd.name" .) (int .Values.port) -}}
{{- include "paramd.clusterOf" (dict "root" . "chief" $chief) }}
{{- end }}

{{/* The same with another address of the chief: (dict "root" $ "chief" ADDRESS). */}}
{{- define "paramd.clusterOf" -}}
{{- $chief := .chief -}}
{{- with .root -}}
{{- $name := include "paramd.name" . -}}
{{- $middle := ternary "-0" "" (eq .Values.controller "jobset") -}}
{{- $end := printf ".%s:%d" $name (int .Values.port) -}}
chief={{ $chief }}
ps={{ $name }}-ps{{ $middle }}-{0..{{ sub (int .Values.ps.count) 1 }}}{{ $end }}
{{- if gt (int .Values.worker.count) 1 }}
worker={{ $name }}-worker{{ $middle }}-{0..{{ sub (int .Values.worker.count) 2 }}}{{ $end }}
{{- end }}
{{- with include "paramd.stages" . }}
stage={{ $name }}-stage{{ $middle }}-{0..{{ sub (int .) 1 }}}{{ $end }}
{{- end }}
{{- end }}
{{- end }}

{{/* How many pods compute stages, those of all workers; empty: none. */}}
{{- define "paramd.stages" -}}
{{- if gt (int .Values.stage.perWorker) 0 }}
{{- if eq .Values.controller "tfjob" }}
{{- fail "stage.perWorker: needs controller plain or jobset: a TFJob has no replicas of type stage" }}
{{- end }}
{{- mul (int .Values.stage.perWorker) (int .Values.worker.count) }}
{{- end }}
{{- end }}

{{/* How many pods of a role there are: (dict "root" $ "role" "ps"). The chief is one
     of the workers. */}}
{{- define "paramd.count" -}}
{{- if eq .role "ps" }}{{ .root.Values.ps.count }}
{{- else if eq .role "stage" }}{{ include "paramd.stages" .root | default "0" }}
{{- else if eq .role "worker" }}{{ sub (int .root.Values.worker.count) 1 }}
{{- else }}{{ .root.Values.election.candidates }}{{ end -}}
{{- end }}

{{/* spec of an Indexed Job: (dict "root" $ "role" "ps"). */}}
{{- define "paramd.jobSpec" -}}
completionMode: Indexed
completions: {{ include "paramd.count" . }}
parallelism: {{ include "paramd.count" . }}
podReplacementPolicy: Failed
backoffLimitPerIndex: {{ .root.Values.retries }}
maxFailedIndexes: 0
podFailurePolicy:
  rules:
    - action: FailJob
      onExitCodes: {operator: In, values: [1, 2]}
    - action: Ignore
      onPodConditions:
        - {type: DisruptionTarget, status: "True"}
template:
  {{- include "paramd.podTemplate" . | nindent 2 }}
{{- end }}

{{/* The template of a pod: (dict "root" $ "role" "ps"). */}}
{{- define "paramd.podTemplate" -}}
{{- $values := .root.Values -}}
{{- $of := get (dict "ps" $values.ps "stage" $values.stage) .role | default $values.worker -}}
{{- $tfjob := eq $values.controller "tfjob" -}}
{{- $elects := include "paramd.elects" .root -}}
{{- $candidate := and $elects (eq .role "chief") -}}
{{- $health := $values.tls.enabled | ternary (int $values.tls.healthPort) (int $values.port) -}}
metadata:
  labels:
    {{- include "paramd.selector" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if eq $values.controller "plain" }}
  subdomain: {{ include "paramd.name" .root }}
  {{- end }}
  {{- if not $tfjob }}
  restartPolicy: Never
  {{- end }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  {{- with $values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with include "paramd.account" .root }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with include "paramd.nodeSelector" (dict "root" .root "more" $of.nodeSelector) }}
  nodeSelector:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with $of.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- else }}
  {{- if $candidate }}
  # On different nodes, if there are.
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "paramd.selector" $.root | nindent 16 }}
                app.kubernetes.io/component: chief
  {{- end }}
  {{- end }}
  {{- with $of.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: {{ int $values.userId }}
    runAsGroup: {{ int $values.userId }}
    fsGroup: {{ int $values.userId }}
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- if has .role (list "ps" "stage") }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "paramd.selector" .root | nindent 10 }}
          app.kubernetes.io/component: {{ .role }}
  {{- end }}
  containers:
    - name: {{ ternary "tensorflow" "paramd" $tfjob }}
      image: {{ include "paramd.image" .root | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args:
        - run
        - --job=/etc/paramd/job.json
        {{- if $candidate }}
        - --task_type=chief
        - --task_index=0
        {{- else if not $tfjob }}
        - --task_from_hostname
        {{- end }}
        {{- if $values.tls.enabled }}
        - --tls_dir=/etc/paramd-tls
        - --health_address=[::]:{{ int $values.tls.healthPort }}
        {{- else }}
        - --insecure
        {{- end }}
      {{- if or (not $tfjob) $values.extraEnv }}
      env:
        {{- if $candidate }}
        # Its own address in place of the chief's.
        - name: POD_IP
          valueFrom:
            fieldRef: {fieldPath: status.podIP}
        - name: PARAMD_CLUSTER
          value: {{ include "paramd.clusterOf" (dict "root" .root "chief" (printf "$(POD_IP):%d" (int $values.port))) | quote }}
        {{- else if not $tfjob }}
        - name: PARAMD_CLUSTER
          valueFrom:
            configMapKeyRef: {name: {{ include "paramd.name" .root }}-job, key: cluster}
        {{- end }}
        {{- if $elects }}
        - {name: PARAMD_CHIEF_ELECTION, value: "kubernetes://{{ include "paramd.name" .root }}"}
        - {name: PARAMD_CHIEF_ELECTION_TLS_DIR, value: /etc/paramd-election}
        {{- end }}
        {{- with $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        - {name: {{ ternary "tfjob-port" "grpc" $tfjob }}, containerPort: {{ int $values.port }}}
        - {name: metrics, containerPort: {{ int $values.metricsPort }}}
        {{- if $values.tls.enabled }}
        - {name: health, containerPort: {{ int $values.tls.healthPort }}}
        {{- end }}
      resources:
        {{- toYaml $of.resources | nindent 8 }}
      {{- /* A candidate that stands by listens nowhere. */}}
      {{- if not $candidate }}
      startupProbe:
        grpc: {port: {{ $health }}, service: liveness}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: {{ div (add (int $values.startupSeconds) 1) 2 }}
      livenessProbe:
        grpc: {port: {{ $health }}, service: liveness}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        grpc: {port: {{ $health }}, service: readiness}
        periodSeconds: 5
        timeoutSeconds: 5
      {{- end }}
      securityContext:
        {{- include "paramd.containerSecurity" . | nindent 8 }}
      terminationMessagePolicy: FallbackToLogsOnError
      volumeMounts:
        - {name: job, mountPath: /etc/paramd, readOnly: true}
        - {name: train, mountPath: /train}
        {{- if $values.tls.enabled }}
        - {name: tls, mountPath: /etc/paramd-tls, readOnly: true}
        {{- end }}
        {{- if $elects }}
        - {name: election, mountPath: /etc/paramd-election, readOnly: true}
        {{- end }}
        {{- with $of.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: job
      configMap: {name: {{ include "paramd.name" .root }}-job}
    - name: train
      persistentVolumeClaim: {claimName: {{ include "paramd.claim" .root }}}
    {{- if $values.tls.enabled }}
    - name: tls
      projected:
        # 0440
        defaultMode: 288
        sources:
          {{- $first := eq .role "worker" | ternary 1 0 }}
          {{- $task := has .role (list "ps" "stage") | ternary .role "worker" }}
          {{- range $i := until (int (include "paramd.count" .)) }}
          {{- include "paramd.tlsSecret" (dict "root" $.root "task" (printf "%s-%d" $task (add $i $first))) | nindent 10 }}
          {{- end }}
    {{- end }}
    {{- if $elects }}
    - name: election
      projected:
        # 0440
        defaultMode: 288
        sources:
          - serviceAccountToken: {path: token, expirationSeconds: 3600}
          - configMap:
              name: kube-root-ca.crt
              items:
                - {key: ca.crt, path: ca.crt}
          - downwardAPI:
              items:
                - {path: namespace, fieldRef: {fieldPath: metadata.namespace}}
    {{- end }}
    {{- with $of.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* What a policy says of all pods that are called: (dict "root" $ "from" SELECTOR). */}}
{{- define "paramd.ingress" -}}
- from:
    - podSelector:
        {{- .from | nindent 8 }}
  ports:
    - {protocol: TCP, port: {{ int .root.Values.port }}}
- from:
    - namespaceSelector: {}
      podSelector:
        matchLabels:
          {{- toYaml .root.Values.networkPolicy.metricsFrom | nindent 10 }}
  ports:
    - {protocol: TCP, port: {{ int .root.Values.metricsPort }}}
{{- end }}

{{/* Names. Policies see the port of the server's pod, which may not be its service's:
     OpenShift's is 5353. */}}
{{- define "paramd.names" -}}
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
    - {protocol: UDP, port: 5353}
    - {protocol: TCP, port: 5353}
{{- end }}

{{/* All pods but stages, which have policies of their own and call nobody. */}}
{{- define "paramd.callers" -}}
matchLabels:
  {{- include "paramd.selector" . | nindent 2 }}
{{- if include "paramd.stages" . }}
matchExpressions:
  - {key: app.kubernetes.io/component, operator: NotIn, values: [stage]}
{{- end }}
{{- end }}

{{/* The pod of a worker, by its number: (dict "root" $ "worker" 0). */}}
{{- define "paramd.workerSelector" -}}
matchLabels:
  {{- include "paramd.selector" .root | nindent 2 }}
  {{- if eq .worker 0 }}
  app.kubernetes.io/component: chief
  {{- else }}
  app.kubernetes.io/component: worker
  batch.kubernetes.io/job-completion-index: {{ sub .worker 1 | quote }}
  {{- end }}
{{- end }}

{{/* The files of one task, in the folder named after it: (dict "root" $ "task" "ps-0").
     The chief is worker 0, and workers count from 1. */}}
{{- define "paramd.tlsSecret" -}}
- secret:
    name: {{ .root.Values.tls.secrets | default (printf "%s-tls" (include "paramd.name" .root)) }}-{{ .task }}
    items:
      - {key: ca.crt, path: {{ .task }}/ca.crt}
      - {key: tls.crt, path: {{ .task }}/tls.crt}
      - {key: tls.key, path: {{ .task }}/tls.key}
{{- end }}

{{- define "paramd.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
