# SPDX-License-Identifier: Apache-2.0
# bash completion for psctl; made by `psctl completion bash`
# shellcheck shell=bash disable=SC2207
_psctl_ask() {
    local target=() i
    for ((i = 1; i < ${#_psctl_words[@]}; i++)); do
        case ${_psctl_words[i]} in
            -t | --target) target=(-t "${_psctl_words[i + 1]-}") ;;
            --target=*) target=(-t "${_psctl_words[i]#*=}") ;;
        esac
    done
    psctl "${target[@]}" --timeout 1 "$1" 2>/dev/null | awk -v column="$2" 'NR > 1 && NF >= 3 && $1 != "total" { print $column }' | sort -u
}
_psctl_candidates() {
    case $1 in
        variable) _psctl_ask vars 1 ;;
        queue_name) _psctl_ask queues 1 ;;
        container) _psctl_ask vars 2 ;;
        task) _psctl_ask status 1 ;;
        setting) _psctl_ask config 1 | grep -vx SETTING ;;
        *) printf '%s\n' "$1" ;;
    esac
}
_psctl() {
    local cur prev verb="" flags words="" word line i _psctl_words=()
    # a colon ends a word for bash; addresses and task names have them
    line=${COMP_LINE:0:COMP_POINT}
    read -r -a _psctl_words <<<"$line"
    [[ $line == *[[:blank:]] ]] && _psctl_words+=("")
    cur=${_psctl_words[${#_psctl_words[@]} - 1]}
    prev=${_psctl_words[${#_psctl_words[@]} - 2]}
    for ((i = 1; i < ${#_psctl_words[@]} - 1; i++)); do
        case ${_psctl_words[i]} in
            -t | --target | --key_file | --tls_cert | --tls_key | --tls_ca | --timeout | --npy | --container | --task | --shard | --only | --prefix | --file | --out | --role | --hosts | --until | --cluster | --dir | --user | --days | --job_name | --ps_tasks | --ps_per_node | --worker_tasks | --base_port | --directory_port | --ps_pods | --worker_pods | --rendezvous | --address_suffix) ((i++)) ;;
            -*) ;;
            *)
                verb=${_psctl_words[i]}
                break
                ;;
        esac
    done
    case $verb in
        "")
            words="status vars queues work workers whoami rounds events waits get export containers devices ping config cluster set set-lr queue checkpoint import delete reset stop shutdown key tls help completion"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version"
            ;;
        status)
            words="task"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --watch"
            ;;
        vars)
            words="variable"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --watch --container --def"
            ;;
        queues)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --watch --task"
            ;;
        work)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --watch --task"
            ;;
        workers)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --watch --task --all --by_key"
            ;;
        whoami)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --task"
            ;;
        rounds)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --watch"
            ;;
        events)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --task --follow"
            ;;
        waits)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --watch --task"
            ;;
        get)
            words="variable"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --npy --container"
            ;;
        export)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --container --only --prefix"
            ;;
        containers)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version"
            ;;
        devices)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version"
            ;;
        ping)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version"
            ;;
        config)
            words="get set task"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --task"
            ;;
        cluster)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --cluster --show --job_name --ps_tasks --ps_per_node --worker_tasks --base_port --directory_port --ps_pods --worker_pods --rendezvous --address_suffix"
            ;;
        set)
            words="variable"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --npy --fill --container"
            ;;
        set-lr)
            words="variable"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --container --all --clear"
            ;;
        queue)
            words="queue_name put take close cancel"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --container"
            ;;
        checkpoint)
            words="save list verify restore export import delete latest"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --container --yes --slots --shard --force --only --prefix --create --spread --no_save"
            ;;
        import)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --container --yes --only --prefix --create"
            ;;
        delete)
            words="variable"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --container --yes"
            ;;
        reset)
            words="container"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --all --yes"
            ;;
        stop)
            words=""
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --yes"
            ;;
        shutdown)
            words="task"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --all --yes"
            ;;
        key)
            words="new export list rotate use revoke"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --yes --file --out --role --hosts --until --cluster"
            ;;
        tls)
            words="init add show"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version --task --cluster --dir --user --days"
            ;;
        help)
            words="status vars queues work workers whoami rounds events waits get export containers devices ping config cluster set set-lr queue checkpoint import delete reset stop shutdown key tls help completion"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version"
            ;;
        completion)
            words="bash"
            flags=" --target --key_file --tls_cert --tls_key --tls_ca --timeout --json --help --version"
            ;;
    esac
    if [[ $verb == config && ${#_psctl_words[@]} -gt $((i + 2)) ]]; then
        case $prev in
            get | set) words="setting" ;;
            log_level) words="debug info warn error off" ;;
            *) words="" ;;
        esac
    fi
    if [[ $cur == -* ]]; then
        words=$flags
    fi
    case $prev in
        -t | --target) words="" ;;
        --key_file) words="" ;;
        --tls_cert) words="" ;;
        --tls_key) words="" ;;
        --tls_ca) words="" ;;
        --timeout) words="" ;;
        --npy) words="" ;;
        --container) words="container" ;;
        --task) words="task" ;;
        --shard) words="" ;;
        --only) words="" ;;
        --prefix) words="" ;;
        --file) words="" ;;
        --out) words="" ;;
        --role) words="" ;;
        --hosts) words="" ;;
        --until) words="" ;;
        --cluster) words="" ;;
        --dir) words="" ;;
        --user) words="" ;;
        --days) words="" ;;
        --job_name) words="" ;;
        --ps_tasks) words="" ;;
        --ps_per_node) words="" ;;
        --worker_tasks) words="" ;;
        --base_port) words="" ;;
        --directory_port) words="" ;;
        --ps_pods) words="" ;;
        --worker_pods) words="" ;;
        --rendezvous) words="" ;;
        --address_suffix) words="" ;;
    esac
    COMPREPLY=($(compgen -W "$(for word in $words; do _psctl_candidates "$word"; done)" -- "$cur"))
    local before=${cur%"${cur##*:}"}
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"$before"}")
    fi
}
complete -o default -F _psctl psctl
