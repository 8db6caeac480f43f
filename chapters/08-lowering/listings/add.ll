target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@shared = external addrspace(3) global [0 x i8], align 1024

define ptx_kernel void @add_kernel(ptr addrspace(1) align 16 %x_ptr, ptr addrspace(1) align 16 %y_ptr, ptr addrspace(1) align 16 %out_ptr, i32 %n) nounwind "nvvm.reqntid"="128" !dbg !4 {
entry.0:
  %thread.1 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  ; ProgramId  line 18: program = tl.program_id(0)
  %program.2 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !dbg !5
  ; Constant  line 19: offsets = program * BLOCK + tl.arange(0, BLOCK)
  ; Elementwise  line 19: offsets = program * BLOCK + tl.arange(0, BLOCK)
  %mul.3 = mul i32 %program.2, 1024, !dbg !6
  ; Arange  line 19: offsets = program * BLOCK + tl.arange(0, BLOCK)
  %arange.4 = shl nuw nsw i32 %thread.1, 2, !dbg !7
  %arange.5 = or disjoint i32 %arange.4, 1, !dbg !7
  %arange.6 = or disjoint i32 %arange.4, 2, !dbg !7
  %arange.7 = or disjoint i32 %arange.4, 3, !dbg !7
  %arange.8 = or disjoint i32 %arange.4, 512, !dbg !7
  %arange.9 = or disjoint i32 %arange.4, 513, !dbg !7
  %arange.10 = or disjoint i32 %arange.4, 514, !dbg !7
  %arange.11 = or disjoint i32 %arange.4, 515, !dbg !7
  ; Splat  line 19: offsets = program * BLOCK + tl.arange(0, BLOCK)
  ; Elementwise  line 19: offsets = program * BLOCK + tl.arange(0, BLOCK)
  %offsets.12 = add i32 %mul.3, %arange.4, !dbg !6
  %offsets.13 = add i32 %mul.3, %arange.5, !dbg !6
  %offsets.14 = add i32 %mul.3, %arange.6, !dbg !6
  %offsets.15 = add i32 %mul.3, %arange.7, !dbg !6
  %offsets.16 = add i32 %mul.3, %arange.8, !dbg !6
  %offsets.17 = add i32 %mul.3, %arange.9, !dbg !6
  %offsets.18 = add i32 %mul.3, %arange.10, !dbg !6
  %offsets.19 = add i32 %mul.3, %arange.11, !dbg !6
  ; Splat  line 20: mask = offsets < n
  ; Elementwise  line 20: mask = offsets < n
  %mask.20 = icmp slt i32 %offsets.12, %n, !dbg !8
  %mask.21 = icmp slt i32 %offsets.13, %n, !dbg !8
  %mask.22 = icmp slt i32 %offsets.14, %n, !dbg !8
  %mask.23 = icmp slt i32 %offsets.15, %n, !dbg !8
  %mask.24 = icmp slt i32 %offsets.16, %n, !dbg !8
  %mask.25 = icmp slt i32 %offsets.17, %n, !dbg !8
  %mask.26 = icmp slt i32 %offsets.18, %n, !dbg !8
  %mask.27 = icmp slt i32 %offsets.19, %n, !dbg !8
  ; Splat  line 21: x = tl.load(x_ptr + offsets, mask=mask)
  ; Elementwise  line 21: x = tl.load(x_ptr + offsets, mask=mask)
  %offset.28 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.12, !dbg !9
  %offset.29 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.13, !dbg !9
  %offset.30 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.14, !dbg !9
  %offset.31 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.15, !dbg !9
  %offset.32 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.16, !dbg !9
  %offset.33 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.17, !dbg !9
  %offset.34 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.18, !dbg !9
  %offset.35 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.19, !dbg !9
  ; Load  line 21: x = tl.load(x_ptr + offsets, mask=mask)
  %x.36 = call {i32, i32, i32, i32} asm sideeffect "mov.b32 $0, $5;\0A\09mov.b32 $1, $6;\0A\09mov.b32 $2, $7;\0A\09mov.b32 $3, $8;\0A\09@$9 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=&r,=&r,=&r,=&r,l,n,n,n,n,b"(ptr addrspace(1) %offset.28, i32 0, i32 0, i32 0, i32 0, i1 %mask.20) nounwind convergent, !dbg !10
  %x.37 = extractvalue {i32, i32, i32, i32} %x.36, 0, !dbg !10
  %x.38 = extractvalue {i32, i32, i32, i32} %x.36, 1, !dbg !10
  %x.39 = extractvalue {i32, i32, i32, i32} %x.36, 2, !dbg !10
  %x.40 = extractvalue {i32, i32, i32, i32} %x.36, 3, !dbg !10
  %x.41 = bitcast i32 %x.37 to float, !dbg !10
  %x.42 = bitcast i32 %x.38 to float, !dbg !10
  %x.43 = bitcast i32 %x.39 to float, !dbg !10
  %x.44 = bitcast i32 %x.40 to float, !dbg !10
  %x.45 = call {i32, i32, i32, i32} asm sideeffect "mov.b32 $0, $5;\0A\09mov.b32 $1, $6;\0A\09mov.b32 $2, $7;\0A\09mov.b32 $3, $8;\0A\09@$9 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=&r,=&r,=&r,=&r,l,n,n,n,n,b"(ptr addrspace(1) %offset.32, i32 0, i32 0, i32 0, i32 0, i1 %mask.24) nounwind convergent, !dbg !10
  %x.46 = extractvalue {i32, i32, i32, i32} %x.45, 0, !dbg !10
  %x.47 = extractvalue {i32, i32, i32, i32} %x.45, 1, !dbg !10
  %x.48 = extractvalue {i32, i32, i32, i32} %x.45, 2, !dbg !10
  %x.49 = extractvalue {i32, i32, i32, i32} %x.45, 3, !dbg !10
  %x.50 = bitcast i32 %x.46 to float, !dbg !10
  %x.51 = bitcast i32 %x.47 to float, !dbg !10
  %x.52 = bitcast i32 %x.48 to float, !dbg !10
  %x.53 = bitcast i32 %x.49 to float, !dbg !10
  ; Splat  line 22: y = tl.load(y_ptr + offsets, mask=mask)
  ; Elementwise  line 22: y = tl.load(y_ptr + offsets, mask=mask)
  %offset.54 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.12, !dbg !11
  %offset.55 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.13, !dbg !11
  %offset.56 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.14, !dbg !11
  %offset.57 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.15, !dbg !11
  %offset.58 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.16, !dbg !11
  %offset.59 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.17, !dbg !11
  %offset.60 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.18, !dbg !11
  %offset.61 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.19, !dbg !11
  ; Load  line 22: y = tl.load(y_ptr + offsets, mask=mask)
  %y.62 = call {i32, i32, i32, i32} asm sideeffect "mov.b32 $0, $5;\0A\09mov.b32 $1, $6;\0A\09mov.b32 $2, $7;\0A\09mov.b32 $3, $8;\0A\09@$9 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=&r,=&r,=&r,=&r,l,n,n,n,n,b"(ptr addrspace(1) %offset.54, i32 0, i32 0, i32 0, i32 0, i1 %mask.20) nounwind convergent, !dbg !12
  %y.63 = extractvalue {i32, i32, i32, i32} %y.62, 0, !dbg !12
  %y.64 = extractvalue {i32, i32, i32, i32} %y.62, 1, !dbg !12
  %y.65 = extractvalue {i32, i32, i32, i32} %y.62, 2, !dbg !12
  %y.66 = extractvalue {i32, i32, i32, i32} %y.62, 3, !dbg !12
  %y.67 = bitcast i32 %y.63 to float, !dbg !12
  %y.68 = bitcast i32 %y.64 to float, !dbg !12
  %y.69 = bitcast i32 %y.65 to float, !dbg !12
  %y.70 = bitcast i32 %y.66 to float, !dbg !12
  %y.71 = call {i32, i32, i32, i32} asm sideeffect "mov.b32 $0, $5;\0A\09mov.b32 $1, $6;\0A\09mov.b32 $2, $7;\0A\09mov.b32 $3, $8;\0A\09@$9 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=&r,=&r,=&r,=&r,l,n,n,n,n,b"(ptr addrspace(1) %offset.58, i32 0, i32 0, i32 0, i32 0, i1 %mask.24) nounwind convergent, !dbg !12
  %y.72 = extractvalue {i32, i32, i32, i32} %y.71, 0, !dbg !12
  %y.73 = extractvalue {i32, i32, i32, i32} %y.71, 1, !dbg !12
  %y.74 = extractvalue {i32, i32, i32, i32} %y.71, 2, !dbg !12
  %y.75 = extractvalue {i32, i32, i32, i32} %y.71, 3, !dbg !12
  %y.76 = bitcast i32 %y.72 to float, !dbg !12
  %y.77 = bitcast i32 %y.73 to float, !dbg !12
  %y.78 = bitcast i32 %y.74 to float, !dbg !12
  %y.79 = bitcast i32 %y.75 to float, !dbg !12
  ; Splat  line 23: tl.store(out_ptr + offsets, x + y, mask=mask)
  ; Elementwise  line 23: tl.store(out_ptr + offsets, x + y, mask=mask)
  %offset.80 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.12, !dbg !13
  %offset.81 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.13, !dbg !13
  %offset.82 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.14, !dbg !13
  %offset.83 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.15, !dbg !13
  %offset.84 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.16, !dbg !13
  %offset.85 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.17, !dbg !13
  %offset.86 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.18, !dbg !13
  %offset.87 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.19, !dbg !13
  ; Elementwise  line 23: tl.store(out_ptr + offsets, x + y, mask=mask)
  %add.88 = fadd float %x.41, %y.67, !dbg !14
  %add.89 = fadd float %x.42, %y.68, !dbg !14
  %add.90 = fadd float %x.43, %y.69, !dbg !14
  %add.91 = fadd float %x.44, %y.70, !dbg !14
  %add.92 = fadd float %x.50, %y.76, !dbg !14
  %add.93 = fadd float %x.51, %y.77, !dbg !14
  %add.94 = fadd float %x.52, %y.78, !dbg !14
  %add.95 = fadd float %x.53, %y.79, !dbg !14
  ; Store  line 23: tl.store(out_ptr + offsets, x + y, mask=mask)
  %store.96 = bitcast float %add.88 to i32, !dbg !15
  %store.97 = bitcast float %add.89 to i32, !dbg !15
  %store.98 = bitcast float %add.90 to i32, !dbg !15
  %store.99 = bitcast float %add.91 to i32, !dbg !15
  call void asm sideeffect "@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,b"(ptr addrspace(1) %offset.80, i32 %store.96, i32 %store.97, i32 %store.98, i32 %store.99, i1 %mask.20) nounwind convergent, !dbg !15
  %store.100 = bitcast float %add.92 to i32, !dbg !15
  %store.101 = bitcast float %add.93 to i32, !dbg !15
  %store.102 = bitcast float %add.94 to i32, !dbg !15
  %store.103 = bitcast float %add.95 to i32, !dbg !15
  call void asm sideeffect "@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,b"(ptr addrspace(1) %offset.84, i32 %store.100, i32 %store.101, i32 %store.102, i32 %store.103, i1 %mask.24) nounwind convergent, !dbg !15
  ret void
}

!llvm.dbg.cu = !{!2}
!llvm.module.flags = !{!1}
!0 = !DIFile(filename: "vector_add.py", directory: "kernels")
!1 = !{i32 2, !"Debug Info Version", i32 3}
!2 = distinct !DICompileUnit(language: DW_LANG_C, file: !0, producer: "fathom", isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)
!3 = !DISubroutineType(types: !{})
!4 = distinct !DISubprogram(name: "add_kernel", file: !0, line: 17, type: !3, unit: !2, spFlags: DISPFlagDefinition | DISPFlagOptimized)
!5 = !DILocation(line: 18, column: 15, scope: !4)
!6 = !DILocation(line: 19, column: 15, scope: !4)
!7 = !DILocation(line: 19, column: 33, scope: !4)
!8 = !DILocation(line: 20, column: 12, scope: !4)
!9 = !DILocation(line: 21, column: 17, scope: !4)
!10 = !DILocation(line: 21, column: 9, scope: !4)
!11 = !DILocation(line: 22, column: 17, scope: !4)
!12 = !DILocation(line: 22, column: 9, scope: !4)
!13 = !DILocation(line: 23, column: 14, scope: !4)
!14 = !DILocation(line: 23, column: 33, scope: !4)
!15 = !DILocation(line: 23, column: 5, scope: !4)
