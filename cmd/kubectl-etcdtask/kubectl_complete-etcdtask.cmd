@rem SPDX-FileCopyrightText: The etcd-foreman authors
@rem
@rem SPDX-License-Identifier: Apache-2.0

@rem kubectl asks a program of this name for the completion of "kubectl etcdtask".
@kubectl etcdtask __complete %*
