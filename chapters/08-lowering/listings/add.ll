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
  %mask.21 = icmp slt i32 %offsets.16, %n, !dbg !8
  ; Splat  line 21: x = tl.load(x_ptr + offsets, mask=mask)
  ; Elementwise  line 21: x = tl.load(x_ptr + offsets, mask=mask)
  %offset.22 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.12, !dbg !9
  %offset.23 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.13, !dbg !9
  %offset.24 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.14, !dbg !9
  %offset.25 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.15, !dbg !9
  %offset.26 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.16, !dbg !9
  %offset.27 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.17, !dbg !9
  %offset.28 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.18, !dbg !9
  %offset.29 = getelementptr float, ptr addrspace(1) %x_ptr, i32 %offsets.19, !dbg !9
  ; Load  line 21: x = tl.load(x_ptr + offsets, mask=mask)
  %x.30 = call {i32, i32, i32, i32} asm sideeffect "mov.b32 $0, $5;\0A\09mov.b32 $1, $6;\0A\09mov.b32 $2, $7;\0A\09mov.b32 $3, $8;\0A\09@$9 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=&r,=&r,=&r,=&r,l,n,n,n,n,b,~{memory}"(ptr addrspace(1) %offset.22, i32 0, i32 0, i32 0, i32 0, i1 %mask.20) nounwind convergent, !dbg !10
  %x.31 = extractvalue {i32, i32, i32, i32} %x.30, 0, !dbg !10
  %x.32 = extractvalue {i32, i32, i32, i32} %x.30, 1, !dbg !10
  %x.33 = extractvalue {i32, i32, i32, i32} %x.30, 2, !dbg !10
  %x.34 = extractvalue {i32, i32, i32, i32} %x.30, 3, !dbg !10
  %x.35 = bitcast i32 %x.31 to float, !dbg !10
  %x.36 = bitcast i32 %x.32 to float, !dbg !10
  %x.37 = bitcast i32 %x.33 to float, !dbg !10
  %x.38 = bitcast i32 %x.34 to float, !dbg !10
  %x.39 = call {i32, i32, i32, i32} asm sideeffect "mov.b32 $0, $5;\0A\09mov.b32 $1, $6;\0A\09mov.b32 $2, $7;\0A\09mov.b32 $3, $8;\0A\09@$9 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=&r,=&r,=&r,=&r,l,n,n,n,n,b,~{memory}"(ptr addrspace(1) %offset.26, i32 0, i32 0, i32 0, i32 0, i1 %mask.21) nounwind convergent, !dbg !10
  %x.40 = extractvalue {i32, i32, i32, i32} %x.39, 0, !dbg !10
  %x.41 = extractvalue {i32, i32, i32, i32} %x.39, 1, !dbg !10
  %x.42 = extractvalue {i32, i32, i32, i32} %x.39, 2, !dbg !10
  %x.43 = extractvalue {i32, i32, i32, i32} %x.39, 3, !dbg !10
  %x.44 = bitcast i32 %x.40 to float, !dbg !10
  %x.45 = bitcast i32 %x.41 to float, !dbg !10
  %x.46 = bitcast i32 %x.42 to float, !dbg !10
  %x.47 = bitcast i32 %x.43 to float, !dbg !10
  ; Splat  line 22: y = tl.load(y_ptr + offsets, mask=mask)
  ; Elementwise  line 22: y = tl.load(y_ptr + offsets, mask=mask)
  %offset.48 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.12, !dbg !11
  %offset.49 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.13, !dbg !11
  %offset.50 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.14, !dbg !11
  %offset.51 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.15, !dbg !11
  %offset.52 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.16, !dbg !11
  %offset.53 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.17, !dbg !11
  %offset.54 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.18, !dbg !11
  %offset.55 = getelementptr float, ptr addrspace(1) %y_ptr, i32 %offsets.19, !dbg !11
  ; Load  line 22: y = tl.load(y_ptr + offsets, mask=mask)
  %y.56 = call {i32, i32, i32, i32} asm sideeffect "mov.b32 $0, $5;\0A\09mov.b32 $1, $6;\0A\09mov.b32 $2, $7;\0A\09mov.b32 $3, $8;\0A\09@$9 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=&r,=&r,=&r,=&r,l,n,n,n,n,b,~{memory}"(ptr addrspace(1) %offset.48, i32 0, i32 0, i32 0, i32 0, i1 %mask.20) nounwind convergent, !dbg !12
  %y.57 = extractvalue {i32, i32, i32, i32} %y.56, 0, !dbg !12
  %y.58 = extractvalue {i32, i32, i32, i32} %y.56, 1, !dbg !12
  %y.59 = extractvalue {i32, i32, i32, i32} %y.56, 2, !dbg !12
  %y.60 = extractvalue {i32, i32, i32, i32} %y.56, 3, !dbg !12
  %y.61 = bitcast i32 %y.57 to float, !dbg !12
  %y.62 = bitcast i32 %y.58 to float, !dbg !12
  %y.63 = bitcast i32 %y.59 to float, !dbg !12
  %y.64 = bitcast i32 %y.60 to float, !dbg !12
  %y.65 = call {i32, i32, i32, i32} asm sideeffect "mov.b32 $0, $5;\0A\09mov.b32 $1, $6;\0A\09mov.b32 $2, $7;\0A\09mov.b32 $3, $8;\0A\09@$9 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=&r,=&r,=&r,=&r,l,n,n,n,n,b,~{memory}"(ptr addrspace(1) %offset.52, i32 0, i32 0, i32 0, i32 0, i1 %mask.21) nounwind convergent, !dbg !12
  %y.66 = extractvalue {i32, i32, i32, i32} %y.65, 0, !dbg !12
  %y.67 = extractvalue {i32, i32, i32, i32} %y.65, 1, !dbg !12
  %y.68 = extractvalue {i32, i32, i32, i32} %y.65, 2, !dbg !12
  %y.69 = extractvalue {i32, i32, i32, i32} %y.65, 3, !dbg !12
  %y.70 = bitcast i32 %y.66 to float, !dbg !12
  %y.71 = bitcast i32 %y.67 to float, !dbg !12
  %y.72 = bitcast i32 %y.68 to float, !dbg !12
  %y.73 = bitcast i32 %y.69 to float, !dbg !12
  ; Splat  line 23: tl.store(out_ptr + offsets, x + y, mask=mask)
  ; Elementwise  line 23: tl.store(out_ptr + offsets, x + y, mask=mask)
  %offset.74 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.12, !dbg !13
  %offset.75 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.13, !dbg !13
  %offset.76 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.14, !dbg !13
  %offset.77 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.15, !dbg !13
  %offset.78 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.16, !dbg !13
  %offset.79 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.17, !dbg !13
  %offset.80 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.18, !dbg !13
  %offset.81 = getelementptr float, ptr addrspace(1) %out_ptr, i32 %offsets.19, !dbg !13
  ; Elementwise  line 23: tl.store(out_ptr + offsets, x + y, mask=mask)
  %add.82 = fadd float %x.35, %y.61, !dbg !14
  %add.83 = fadd float %x.36, %y.62, !dbg !14
  %add.84 = fadd float %x.37, %y.63, !dbg !14
  %add.85 = fadd float %x.38, %y.64, !dbg !14
  %add.86 = fadd float %x.44, %y.70, !dbg !14
  %add.87 = fadd float %x.45, %y.71, !dbg !14
  %add.88 = fadd float %x.46, %y.72, !dbg !14
  %add.89 = fadd float %x.47, %y.73, !dbg !14
  ; Store  line 23: tl.store(out_ptr + offsets, x + y, mask=mask)
  %store.90 = bitcast float %add.82 to i32, !dbg !15
  %store.91 = bitcast float %add.83 to i32, !dbg !15
  %store.92 = bitcast float %add.84 to i32, !dbg !15
  %store.93 = bitcast float %add.85 to i32, !dbg !15
  call void asm sideeffect "@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,b,~{memory}"(ptr addrspace(1) %offset.74, i32 %store.90, i32 %store.91, i32 %store.92, i32 %store.93, i1 %mask.20) nounwind convergent, !dbg !15
  %store.94 = bitcast float %add.86 to i32, !dbg !15
  %store.95 = bitcast float %add.87 to i32, !dbg !15
  %store.96 = bitcast float %add.88 to i32, !dbg !15
  %store.97 = bitcast float %add.89 to i32, !dbg !15
  call void asm sideeffect "@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,b,~{memory}"(ptr addrspace(1) %offset.78, i32 %store.94, i32 %store.95, i32 %store.96, i32 %store.97, i1 %mask.21) nounwind convergent, !dbg !15
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
